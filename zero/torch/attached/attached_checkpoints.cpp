#include "zero/torch/attached/attached_checkpoints.h"

#include <utility>
#include <vector>

namespace zero {

// Ranks that are threads share one generator.
bool AttachedCheckpoints::owns_generator() const {
  const Communicator& comm = engine_.resources().comm;
  return comm.world() == 1 || comm.transport() != "in_process";
}

SaveContents AttachedCheckpoints::with_extras(SaveContents contents) const {
  for (Extra& extra : extras_of(buffers_, owns_generator())) contents.extras.push_back(std::move(extra));
  if (place_.is_cuda() && owns_generator()) contents.extras.push_back(generator_extra(kGpuGenerator, place_));
  for (const RoleState& state : role_.states())
    contents.extras.push_back({.name = state.name,
                               .shape = {std::ssize(state.bytes)},
                               .bytes = std::vector<std::byte>(state.bytes.begin(), state.bytes.end())});
  return contents;
}

void AttachedCheckpoints::restore_role(const LoadedCheckpoint& loaded) {
  SavedRole saved{.num_files = std::ssize(loaded.manifest.files), .steps = loaded.manifest.steps};
  for (const Extra& extra : loaded.extras) saved.states.push_back({.name = extra.name, .bytes = extra.bytes});
  role_.restore(saved);
}

std::unique_ptr<CheckpointSave> AttachedCheckpoints::begin_save(const std::filesystem::path& path,
                                                                SaveContents contents, SaveMode mode) {
  return std::make_unique<CheckpointSave>(engine_, path, with_extras(std::move(contents)), mode, FileCalls::kernel(),
                                          &images_);
}

bool AttachedCheckpoints::keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents) {
  contents = with_extras(std::move(contents));
  if (kept.save(engine_, step, contents)) return true;
  images_.give_back();  // no save uses this memory now, and the machine counts it as used
  return kept.save(engine_, step, std::move(contents));
}

AttachedCheckpoints::Checked AttachedCheckpoints::check(const std::filesystem::path& path, const FileCalls& calls,
                                                        const WholeModel& whole) {
  const Communicator& comm = engine_.resources().comm;
  Checked checked{.path = path};
  const auto check_extras = [&](const Manifest& manifest) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    require_buffers(manifest.files[rank % manifest.files.size()].extras, buffers_, path.string());
    const std::int64_t files = std::ssize(manifest.files);
    checked.with_generator = (files == comm.world() || files == whole.num_files) && owns_generator();
    if (checked.with_generator) require_generators(manifest, path.string());
  };
  checked.load = std::make_unique<CheckpointLoad>(engine_, path, calls, check_extras, whole.names);
  return checked;
}

LoadedCheckpoint AttachedCheckpoints::fill(Checked& checked) {
  LoadedCheckpoint loaded = checked.load->fill();
  take_extras(loaded.extras, buffers_, checked.with_generator, checked.path.string());
  if (place_.is_cuda() && checked.with_generator)
    take_generator(loaded.extras, kGpuGenerator, place_, checked.path.string());
  restore_role(loaded);
  return loaded;
}

void AttachedCheckpoints::end_load() {
  values_.end_load();
  engine_.writes().forget();
  engine_.settle();
}

LoadedCheckpoint AttachedCheckpoints::load(const std::filesystem::path& path, const FileCalls& calls, FetchCall fetch) {
  Checked checked = check(path, calls);
  if (fetch) fetch(checked.load->reader());
  begin_load();
  LoadedCheckpoint loaded = fill(checked);
  end_load();
  return loaded;
}

}  // namespace zero
