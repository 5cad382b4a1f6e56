#include "zero/checkpoint/kept_checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/base/pages.h"
#include "zero/checkpoint/same_outcome.h"
#include "zero/comm/collectives.h"
#include "zero/comm/windows.h"

namespace zero {
namespace {

constexpr std::string_view kFolder = "kept/", kUnfinished = "kept/tmp/", kStep = "kept/step-";

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

int KeptFiles::open(const std::string&, int flags) const {
  return open_in(-1, std::string(kManifestName), flags);
}

int KeptFiles::open_in(int, const std::string& name, int) const {
  std::optional<FileDescriptor> file = keeper_.get(fmt::format("{}/{}", folder_, name));
  return file ? file->release() : -ENOENT;
}

std::int64_t kept_step(std::string_view name) {
  if (!name.starts_with(kStep) || !name.ends_with(kManifestName)) return -1;
  name.remove_prefix(kStep.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end != name.data() + name.size() && *end == '/' ? step : -1;
}

std::filesystem::path KeptCheckpoints::path_of(std::int64_t step) {
  return fmt::format("{}{:08}", kStep, step);
}

std::vector<std::int64_t> KeptCheckpoints::steps() {
  std::vector<std::int64_t> steps;
  for (const std::string& name : keeper_.list(std::string(kFolder)))
    if (const std::int64_t step = kept_step(name); step >= 0) steps.push_back(step);
  std::ranges::sort(steps, std::greater());
  return steps;
}

void KeptCheckpoints::remove(std::int64_t step) {
  keeper_.remove(path_of(step).string() + "/");
}

BlockSums KeptCheckpoints::fill(Copy& copy, Engine& engine, const RankImage& image) {
  const std::size_t bytes = rounded(image.size_bytes());
  if (copy.memory.size() != bytes) {
    copy = {};
    copy.charge = Charge(engine.ledger(), Tier::kHost, MemoryTag::kStaging, static_cast<std::int64_t>(bytes));
    copy.file = make_memory_file("zero.cpp checkpoint", bytes);
    copy.memory = map_memory_file(copy.file.get(), bytes, true);
    use_huge_pages(copy.memory.bytes());  // small ones serve as well, slower
  }
  resize(copy.file, bytes);
  std::byte* end = copy.memory.data();
  image.stream([&end](std::span<const std::byte> part) {
    if (!part.empty()) std::memcpy(end, part.data(), part.size());
    end += part.size();
  });
  ZERO_CHECK(end - copy.memory.data() == image.size_bytes());
  resize(copy.file, static_cast<std::size_t>(image.size_bytes()));
  return sums_of(copy.memory.bytes().first(static_cast<std::size_t>(image.size_bytes())));
}

bool KeptCheckpoints::save(Engine& engine, std::int64_t step, SaveContents contents) {
  engine.pause();
  Communicator& comm = engine.communicator();
  const std::string path = path_of(step).string();
  const RankImage image(engine, std::move(contents));
  Copy& copy = copies_[1 - newest_];
  if (!memory_has_room(engine, copy.memory ? 0 : static_cast<std::int64_t>(rounded(image.size_bytes())))) return false;
  BlockSums content;
  require_same_outcome(comm, path, failure_of([&] {
                         content = fill(copy, engine, image);
                         keeper_.put(fmt::format("{}{}", kUnfinished, image.file_name()), copy.file.get());
                       }));
  const auto texts = all_gather_text(comm, image.file_text(content));
  require_same_outcome(comm, path, failure_of([&] {
                         if (comm.rank() != 0) return;
                         const std::string text = to_text(image.manifest_with(texts, path));
                         keeper_.put(fmt::format("{}{}", kUnfinished, kManifestName), memory_file_of(text).get());
                         const std::vector<std::int64_t> older = steps();
                         keeper_.rename(std::string(kUnfinished), path + "/");
                         for (const std::int64_t old : older)
                           if (old != step) remove(old);
                       }));
  newest_ = 1 - newest_;
  return true;
}

}  // namespace zero
