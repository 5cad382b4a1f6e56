#include "zero/torch/attached/attached_checkpoints.h"

#include <charconv>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/log.h"
#include "zero/plan/units/cut.h"
#include "zero/plan/units/weighted_cut.h"

namespace zero {
namespace {

constexpr std::string_view kVersion = "server/version/";

// Returns the prefix of the names of older versions: it names the cut of their bytes. (Hash blocks had other sizes
// before.)
std::string prefix_of_versions(const AttachOptions& options) {
  if (options.shards == Cut::kRange) return std::string(kVersion);
  if (options.shards == Cut::kHash) return fmt::format("{}hash {}/", kVersion, kFewHashBlocks);
  const std::string weights = weights_text(options.shard_weights);
  return fmt::format("{}{}{}{}/", kVersion, name_of(options.shards), weights.empty() ? "" : " ", weights);
}

}  // namespace

// Ranks that are threads share one generator.
bool AttachedCheckpoints::owns_generator() const {
  const Communicator& comm = engine_.resources().comm;
  return comm.world() == 1 || comm.transport() != "in_process";
}

SaveContents AttachedCheckpoints::with_extras(SaveContents contents) const {
  for (Extra& extra : extras_of(buffers_, owns_generator())) contents.extras.push_back(std::move(extra));
  if (place_.is_cuda() && owns_generator()) contents.extras.push_back(generator_extra(kGpuGenerator, place_));
  if (server_ == nullptr) return contents;
  const std::string prefix = prefix_of_versions(engine_.resources().options);
  const std::vector<std::int64_t> versions = server_->versions().numbers();
  for (const std::int64_t version : versions) {
    if (version == versions.back()) break;  // this version is in the states
    const std::span<const std::byte> bytes = server_->versions().kept(version);
    contents.extras.push_back({.name = fmt::format("{}{}", prefix, version),
                               .shape = {std::ssize(bytes)},
                               .bytes = std::vector<std::byte>(bytes.begin(), bytes.end())});
  }
  return contents;
}

// Takes older versions only if the checkpoint has as many servers, with the same cut.
void AttachedCheckpoints::take_versions(const LoadedCheckpoint& loaded) {
  if (server_ == nullptr || server_->versions().num_older() == 0) return;
  const bool same_servers = std::ssize(loaded.manifest.files) == engine_.resources().comm.world();
  const std::string prefix = prefix_of_versions(engine_.resources().options);
  int taken = 0;
  for (const Extra& extra : loaded.extras) {
    if (!same_servers || !extra.name.starts_with(prefix)) continue;
    if (std::ssize(extra.bytes) != server_->versions().bytes_each()) continue;
    std::int64_t version = -1;
    std::from_chars(extra.name.data() + prefix.size(), extra.name.data() + extra.name.size(), version);
    if (version < 0) continue;
    server_->versions().restore(version, extra.bytes);
    ++taken;
  }
  if (taken == 0 && loaded.manifest.steps > 0 && engine_.resources().comm.rank() == 0)
    ZERO_LOG(warn, "this checkpoint has no older weights for these servers: workers continue with the newest");
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
  take_versions(loaded);
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
