#include "zero/checkpoint/in_memory_checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <tuple>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/base/process/pages.h"
#include "zero/checkpoint/image/image_memory.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

constexpr std::string_view kFolder = "kept/", kStep = "step-";

// Rounds up to whole MiB, so a few more losses in an image need no new memory.
constexpr std::size_t rounded(std::int64_t bytes) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  return static_cast<std::size_t>((bytes + kMiB - 1) / kMiB * kMiB);
}

void resize(const FileDescriptor& file, std::size_t bytes) {
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw IoError("kept checkpoint", fmt::format("set its size to {} bytes", bytes), errno);
}

using StepsAndSums = std::map<std::int64_t, std::int64_t>;  // sums of manifests

InMemoryCheckpoints::Agreed agreed_on(const std::vector<StepsAndSums>& of_launchers, const Launchers& launchers) {
  InMemoryCheckpoints::Agreed agreed;
  std::map<std::int64_t, int> missing;  // by step: a rank whose launcher has another checkpoint or none
  for (const StepsAndSums& sums : of_launchers) {
    for (const auto& [step, sum] : sums) {
      const auto lacks = std::ranges::find_if(of_launchers, [&](const StepsAndSums& other) {
        const auto found = other.find(step);
        return found == other.end() || found->second != sum;
      });
      if (lacks != of_launchers.end())
        missing.emplace(step, launchers.first_rank(static_cast<int>(lacks - of_launchers.begin())));
    }
  }
  for (const auto& [step, sum] : of_launchers.front())
    if (!missing.contains(step)) agreed.steps.insert(agreed.steps.begin(), step);
  if (!missing.empty()) std::tie(agreed.partial, agreed.missing_rank) = *missing.rbegin();
  return agreed;
}

FileDescriptor memory_file_of(std::string_view text) {
  FileDescriptor file = make_memory_file("zero.cpp manifest", text.size());
  if (::pwrite(file.get(), text.data(), text.size(), 0) != std::ssize(text))
    throw IoError("kept checkpoint", fmt::format("write {} bytes", text.size()), errno);
  return file;
}

}  // namespace

int InMemoryFiles::open(const std::string&, int flags) const {
  return open_in(-1, std::string(kManifestName), flags);
}

int InMemoryFiles::open_in(int, const std::string& name, int) const {
  std::optional<FileDescriptor> file = memory_.get(fmt::format("{}/{}", folders_.kept, name));
  if (!file && launchers_ != nullptr && name != kManifestName) {
    file = memory_.get(fmt::format("{}/{}", folders_.fetched, name));
    const std::int64_t bytes = file ? 0 : size_of_file(name);
    if (!file && bytes >= 0) file = make_memory_file("zero.cpp stand-in", static_cast<std::size_t>(bytes));
  }
  return file ? file->release() : -ENOENT;
}

// Returns the size that the manifest gives; -1: the manifest does not list the file.
std::int64_t InMemoryFiles::size_of_file(const std::string& name) const {
  if (sizes_.empty())
    for (const SavedFile& file : read_manifest(folders_.kept, *this).files) sizes_[file.name] = file.content.size_bytes;
  const auto found = sizes_.find(name);
  return found == sizes_.end() ? -1 : found->second;
}

void InMemoryFiles::fetch(const EngineResources& engine, const CheckpointReader& reader) {
  if (launchers_ == nullptr) return;
  removes_ = launchers_->is_first(engine.comm.rank());
  fetched_ = fetch_blocks(engine, *launchers_, memory_, folders_, reader);
}

InMemoryFiles::~InMemoryFiles() {
  // if this fails, the next start drops the blocks
  if (removes_) (void)failure_of([this] { memory_.remove(folders_.fetched + "/"); });
}

// kept/RUN/step-00000040/manifest.json
std::int64_t kept_step(std::string_view name) {
  if (!name.starts_with(kFolder)) return -1;
  name.remove_prefix(kFolder.size());
  name.remove_prefix(std::min(name.size(), name.find('/')));
  if (!name.starts_with('/') || !name.substr(1).starts_with(kStep)) return -1;
  name.remove_prefix(1 + kStep.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  return error == std::errc() && name.starts_with('/') && name.substr(1) == kManifestName ? step : -1;
}

InMemoryCheckpoints::InMemoryCheckpoints(LauncherMemory memory, std::string_view run)
    : memory_(std::move(memory)),
      prefix_(fmt::format("{}{:016x}", kFolder, block_sum(std::as_bytes(std::span(run))))) {}

InMemoryCheckpoints::InMemoryCheckpoints(LauncherMemory memory, std::string_view run, Communicator& comm)
    : InMemoryCheckpoints(std::move(memory), run) {
  std::string name;
  require_same_failure(comm, "memory of the launcher", [&] { name = memory_.launcher(); });
  launchers_.emplace(comm, name);
  if (launchers_->count() == 1) launchers_.reset();
}

std::filesystem::path InMemoryCheckpoints::path_of(std::int64_t step) const {
  return fmt::format("{}/{}{:08}", prefix_, kStep, step);
}

std::vector<std::int64_t> InMemoryCheckpoints::steps() {
  std::vector<std::int64_t> steps;
  for (const std::string& name : memory_.list(prefix_ + "/"))
    if (const std::int64_t step = kept_step(name); step >= 0) steps.push_back(step);
  std::ranges::sort(steps, std::greater());
  return steps;
}

void InMemoryCheckpoints::remove(std::int64_t step) {
  memory_.remove(path_of(step).string() + "/");
}

// Each step is followed by the sum of its manifest, which contains the sums of all files. So equal sums are of the same
// checkpoint.
std::vector<std::int64_t> InMemoryCheckpoints::steps_and_sums() {
  std::vector<std::int64_t> numbers;
  for (const std::int64_t step : steps()) {
    const InMemoryFiles files = files_of(step);
    const std::string text =
        SourceFolder(path_of(step), files).read_text(std::string(kManifestName), kMostManifestBytes);
    numbers.insert(numbers.end(), {step, static_cast<std::int64_t>(block_sum(std::as_bytes(std::span(text))))});
  }
  return numbers;
}

InMemoryCheckpoints::Agreed InMemoryCheckpoints::agree(Communicator& comm) {
  ZERO_CHECK(launchers_.has_value(), "one launcher agrees with itself");
  std::vector<std::int64_t> mine;
  require_same_failure(comm, prefix_, [&] {
    if (launchers_->is_first(comm.rank())) mine = steps_and_sums();
  });
  std::vector<StepsAndSums> of_launchers;
  const auto of_ranks = all_gather_numbers(comm, mine);
  for (int launcher = 0; launcher < launchers_->count(); ++launcher) {
    const std::vector<std::int64_t>& numbers = of_ranks[static_cast<std::size_t>(launchers_->first_rank(launcher))];
    StepsAndSums& sums = of_launchers.emplace_back();
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) sums[numbers[i]] = numbers[i + 1];
  }
  return agreed_on(of_launchers, *launchers_);
}

BlockSums InMemoryCheckpoints::fill(Room& room, RankEngine& engine, const RankImage& image) {
  const std::size_t bytes = rounded(image.size_bytes());
  if (room.memory.size() != bytes) {
    room = {};
    room.file = make_memory_file("zero.cpp checkpoint", bytes);
    room.memory = map_memory_file(room.file.get(), bytes, true);
    room.charge = Charge(engine.resources().ledger, Tier::kHost, MemoryTag::kStaging, static_cast<std::int64_t>(bytes));
    use_huge_pages(room.memory.bytes());  // if refused, small pages serve as well, but slower
  }
  resize(room.file, bytes);
  image.copy_to(room.memory.bytes().first(static_cast<std::size_t>(image.size_bytes())));
  resize(room.file, static_cast<std::size_t>(image.size_bytes()));
  return sums_of(room.memory.bytes().first(static_cast<std::size_t>(image.size_bytes())));
}

void InMemoryCheckpoints::name(std::int64_t step, const std::string& manifest) {
  memory_.put(unfinished() + std::string(kManifestName), memory_file_of(manifest).get());
  memory_.rename(unfinished(), path_of(step).string() + "/");
}

void InMemoryCheckpoints::remove_others(std::int64_t step) {
  for (const std::int64_t other : steps())
    if (other != step) remove(other);
}

void InMemoryCheckpoints::publish(Communicator& comm, std::int64_t step, const RankImage& image,
                                  const std::vector<std::string>& texts) {
  const std::string path = path_of(step).string();
  std::string manifest;
  const auto write = [&] {
    if (comm.rank() == 0) manifest = to_text(image.manifest_with(texts, path));
  };
  if (!launchers_) {
    return require_same_failure(comm, path, [&] {
      write();
      if (comm.rank() != 0) return;
      name(step, manifest);
      remove_others(step);
    });
  }
  const bool is_first = launchers_->is_first(comm.rank());
  require_same_failure(comm, path, write);
  manifest = broadcast_text(comm, manifest);
  try {
    require_same_failure(comm, path, [&] {
      if (is_first) name(step, manifest);
    });
  } catch (const IoError&) {  // the earlier checkpoint is still everywhere
    if (is_first) (void)failure_of([&] { remove(step); });
    throw;
  }
  // All ranks continue here only after every launcher has the new checkpoint.
  require_same_failure(comm, path, [&] {
    if (is_first) remove_others(step);
  });
}

bool InMemoryCheckpoints::save(RankEngine& engine, std::int64_t step, SaveContents contents) {
  engine.states().pause();
  Communicator& comm = engine.resources().comm;
  const std::string path = path_of(step).string();
  const RankImage image(engine, std::move(contents));
  Room& room = rooms_[1 - newest_];
  if (!memory_has_room(engine.resources(), room.memory ? 0 : static_cast<std::int64_t>(rounded(image.size_bytes()))))
    return false;
  BlockSums content;
  require_same_failure(comm, path, [&] {
    content = fill(room, engine, image);
    memory_.put(unfinished() + image.file_name(), room.file.get());
  });
  const auto texts = all_gather_text(comm, image.file_text(content));
  try {
    publish(comm, step, image, texts);
  } catch (const Error&) {
    // The launcher may have published this memory nevertheless, so it is not written again.
    room = {};
    throw;
  }
  newest_ = 1 - newest_;
  return true;
}

}  // namespace zero
