#include "zero/torch/engine_control.h"

#include "zero/torch/activations/activation_store_shared.h"
#include "zero/torch/attached_module.h"

namespace zero {

std::unique_ptr<RunningSave> EngineControl::begin_save(const std::filesystem::path& path, SaveContents contents,
                                                       SaveMode mode) {
  return Inside(attached_)->checkpoints().begin_save(path, std::move(contents), mode);
}
bool EngineControl::has_room_to_copy(std::int64_t bytes) {
  return attached_.has_room_to_copy(bytes);
}
bool EngineControl::keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents) {
  return Inside(attached_)->checkpoints().keep(kept, step, std::move(contents));
}
LoadedCheckpoint EngineControl::load(InMemoryCheckpoints& kept, std::int64_t step) {
  InMemoryFiles files = kept.files_of(step);
  return Inside(attached_)->checkpoints_to_load().load(kept.path_of(step), files, [&](const CheckpointReader& reader) {
    files.fetch(attached_.engine().resources(), reader);
  });
}
ReplicaCheck EngineControl::compare_replicas() {
  const Inside inside(attached_);
  inside->steps().drop_zeroed();
  return inside->engine().states().compare_replicas();
}
void EngineControl::finish_updates() {
  const Inside inside(attached_);
  inside->steps().drop_zeroed();
  inside->engine().finish();
}
void EngineControl::finish_outer_sums() {
  const Inside inside(attached_);
  inside->steps().drop_zeroed();
  inside->engine().states().pause();
}
std::size_t EngineControl::visit_some(std::size_t first, const AttachedStates::ParameterVisit& visit,
                                      bool full_precision) {
  return attached_.states().visit_some(first, visit, full_precision);
}
RankRole& EngineControl::role() {
  return attached_.role();
}
WorkSeconds EngineControl::take_work_seconds() {
  return attached_.engine().take_work_seconds();
}
const std::vector<Unit>& EngineControl::units() const {
  return attached_.engine().units();
}
const Schedule& EngineControl::schedule() const {
  return attached_.engine().schedule();
}
void EngineControl::share_link(ActivationStore& activations) const {
  ActivationStore::Shared& shared = activations.shared();
  const std::lock_guard lock(shared.mutex);
  shared.come_from(attached_.device());
  const Link* link = attached_.engine().resources().link;
  if (link != nullptr) shared.activation_offload.share_link(*link);
}

}  // namespace zero
