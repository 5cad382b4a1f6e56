#include "zero/torch/attach.h"

#include "zero/torch/attached_module.h"

namespace zero {

Attachment attach(torch::nn::Module& module, World& world, AttachOptions options) {
  const bool awaits_load = options.awaits_load;
  auto attached = std::make_unique<AttachedModule>(module, world, std::move(options));
  if (!awaits_load) attached->engine().settle();
  return Attachment(std::move(attached));
}

Attachment::Attachment(std::unique_ptr<AttachedModule> impl) : impl_(std::move(impl)) {}
Attachment::Attachment(Attachment&&) noexcept = default;
Attachment& Attachment::operator=(Attachment&&) noexcept = default;
Attachment::~Attachment() = default;

StepReport Attachment::step() {
  return impl_->step(impl_->lr());
}
StepReport Attachment::step(double lr, const StepLimits& limits) {
  return impl_->step(lr, limits);
}
ReplicaCheck Attachment::compare_replicas() {
  return impl_->engine().states().compare_replicas();
}

Attachment::AccumulateScope::AccumulateScope(AttachedModule& module) : module_(module) {}
Attachment::AccumulateScope::~AccumulateScope() noexcept(false) {
  if (std::uncaught_exceptions() == 0) module_.engine().end_micro_batch();
}
Attachment::AccumulateScope Attachment::accumulate() {
  return AccumulateScope(*impl_);
}

Attachment::GatheredScope::GatheredScope(AttachedModule& attached, const torch::nn::Module& module, int source_rank)
    : attached_(attached), units_(attached.units_of(module)), source_rank_(source_rank) {
  attached_.gather_for_everybody(units_);
}
Attachment::GatheredScope::~GatheredScope() noexcept(false) {
  if (std::uncaught_exceptions() == 0) attached_.release_from_everybody(units_, source_rank_);
}
Attachment::GatheredScope Attachment::gathered(const torch::nn::Module& module, int source_rank) {
  return {*impl_, module, source_rank};
}

void Attachment::for_each_parameter(const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                                    bool full_precision) {
  impl_->for_each_parameter(visit, full_precision);
}

void Attachment::export_weights(const std::filesystem::path& path, bool full_precision) {
  impl_->export_weights(path, full_precision);
}

void Attachment::abandon() {
  impl_->abandon();
}

EngineReport Attachment::report() const {
  return impl_->engine().report();
}
const Link* Attachment::link() const {
  return impl_->engine().link();
}
void Attachment::finish_updates() {
  impl_->engine().finish();
}
void Attachment::save(const std::filesystem::path& path) {
  begin_save(path, {}, SaveMode::kSync)->wait();
}
std::unique_ptr<CheckpointSave> Attachment::begin_save(const std::filesystem::path& path, SaveContents contents,
                                                       SaveMode mode) {
  return impl_->begin_save(path, std::move(contents), mode);
}
LoadedCheckpoint Attachment::load(const std::filesystem::path& path, const FileCalls& calls) {
  LoadedCheckpoint loaded = impl_->load(path, calls);
  impl_->engine().settle();
  return loaded;
}
bool Attachment::has_room_to_copy(std::int64_t bytes) {
  return impl_->has_room_to_copy(bytes);
}
bool Attachment::keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents) {
  return impl_->keep(kept, step, std::move(contents));
}
PhaseSeconds Attachment::take_phase_seconds() {
  return impl_->engine().take_phase_seconds();
}
const std::vector<Unit>& Attachment::units() const {
  return impl_->engine().units();
}
const std::vector<ParamSpec>& Attachment::parameters() const {
  return impl_->engine().specs();
}
const Schedule& Attachment::schedule() const {
  return impl_->engine().schedule();
}

}  // namespace zero
