#include "zero/checkpoint/in_memory_checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error.h"
#include "zero/base/memory_file.h"
#include "zero/base/pages.h"
#include "zero/checkpoint/same_outcome.h"
#include "zero/checkpoint/staging_memory.h"
#include "zero/comm/collectives.h"
#include "zero/comm/windows.h"

namespace zero {
namespace {

constexpr std::string_view kFolder = "kept/", kStep = "step-";

// Grows in whole MiB, so that a few more losses in it are no reason for new memory.
constexpr std::size_t rounded(std::int64_t bytes) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  return static_cast<std::size_t>((bytes + kMiB - 1) / kMiB * kMiB);
}

void resize(const FileDescriptor& file, std::size_t bytes) {
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw IoError("kept checkpoint", fmt::format("set its size to {} bytes", bytes), errno);
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
  std::optional<FileDescriptor> file = memory_.get(fmt::format("{}/{}", folder_, name));
  return file ? file->release() : -ENOENT;
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

BlockSums InMemoryCheckpoints::fill(Room& room, Engine& engine, const RankImage& image) {
  const std::size_t bytes = rounded(image.size_bytes());
  if (room.memory.size() != bytes) {
    room = {};
    room.file = make_memory_file("zero.cpp checkpoint", bytes);
    room.memory = map_memory_file(room.file.get(), bytes, true);
    room.charge = Charge(engine.resources().ledger, Tier::kHost, MemoryTag::kStaging, static_cast<std::int64_t>(bytes));
    use_huge_pages(room.memory.bytes());  // small ones serve as well, slower
  }
  resize(room.file, bytes);
  image.copy_to(room.memory.bytes().first(static_cast<std::size_t>(image.size_bytes())));
  resize(room.file, static_cast<std::size_t>(image.size_bytes()));
  return sums_of(room.memory.bytes().first(static_cast<std::size_t>(image.size_bytes())));
}

void InMemoryCheckpoints::publish(std::int64_t step, const std::string& manifest) {
  memory_.put(unfinished() + std::string(kManifestName), memory_file_of(manifest).get());
  const std::vector<std::int64_t> older = steps();
  memory_.rename(unfinished(), path_of(step).string() + "/");
  for (const std::int64_t old : older)
    if (old != step) remove(old);
}

bool InMemoryCheckpoints::save(Engine& engine, std::int64_t step, SaveContents contents) {
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
    require_same_failure(comm, path, [&] {
      if (comm.rank() == 0) publish(step, to_text(image.manifest_with(texts, path)));
    });
  } catch (const Error&) {
    room = {};  // the launcher may have published it all the same: it is not written again
    throw;
  }
  newest_ = 1 - newest_;
  return true;
}

}  // namespace zero
