#include "zero/torch/attached_checkpoints.h"

namespace zero {

// Ranks that are threads share one.
bool AttachedCheckpoints::owns_generator() const {
  const Communicator& comm = engine_.resources().comm;
  return comm.world() == 1 || comm.transport() != "in_process";
}

SaveContents AttachedCheckpoints::with_extras(SaveContents contents) const {
  for (Extra& extra : extras_of(buffers_, owns_generator())) contents.extras.push_back(std::move(extra));
  return contents;
}

std::unique_ptr<CheckpointSave> AttachedCheckpoints::begin_save(const std::filesystem::path& path,
                                                                SaveContents contents, SaveMode mode) {
  return std::make_unique<CheckpointSave>(engine_, path, with_extras(std::move(contents)), mode, FileCalls::kernel(),
                                          &images_);
}

bool AttachedCheckpoints::keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents) {
  contents = with_extras(std::move(contents));
  if (kept.save(engine_, step, contents)) return true;
  images_.give_back();  // no save uses it now, and the machine counts it as taken
  return kept.save(engine_, step, std::move(contents));
}

LoadedCheckpoint AttachedCheckpoints::load(const std::filesystem::path& path, const FileCalls& calls,
                                           const std::function<void()>& begin) {
  const Communicator& comm = engine_.resources().comm;
  bool with_generator = false;
  const auto check = [&](const Manifest& manifest) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    require_buffers(manifest.files[rank % manifest.files.size()].extras, buffers_, path.string());
    with_generator = std::ssize(manifest.files) == comm.world() && owns_generator();
    if (with_generator) require_generators(manifest, path.string());
  };
  LoadedCheckpoint loaded = load_checkpoint(engine_, path, calls, {.check = check, .begin = begin});
  take_extras(loaded.extras, buffers_, with_generator, path.string());
  return loaded;
}

}  // namespace zero
