#include "zero/checkpoint/save.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "zero/base/check.h"
#include "zero/base/clock.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/base/signals_blocked.h"
#include "zero/checkpoint/block_file.h"
#include "zero/checkpoint/same_outcome.h"
#include "zero/comm/collectives.h"
#include "zero/memory/charge.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool is_part_of_checkpoint(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == kManifestName || (name.starts_with("rank-") && name.ends_with(".safetensors"));
}

// Ends a write that nobody waits for.
struct GivenUp : std::exception {};

Engine& paused(Engine& engine) {
  engine.states().pause();
  return engine;
}

// Asks `done` again and again. The slowest rank may write for longer than ranks wait for each other in a collective.
void ask_until(const std::function<bool()>& done) {
  constexpr std::chrono::microseconds kFirst{100}, kLongest{5000};
  for (auto pause = kFirst; !done(); pause = std::min(2 * pause, kLongest)) std::this_thread::sleep_for(pause);
}

// Charges the memory of a BlockFileWriter.
Charge charge_blocks(Ledger& ledger) {
  return {ledger, Tier::kHost, MemoryTag::kStaging, std::int64_t{BlocksInFlight::kMost} * kSumBlockBytes};
}

// Refuses to replace a path that something else has created.
void require_replaceable(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) return;
  const bool is_folder = fs::is_directory(fs::symlink_status(path, ignored));  // a link to a folder is none
  if (!is_folder || !std::ranges::all_of(paths_in(path), is_part_of_checkpoint))
    throw IoError(path.string(), "save", EEXIST, "it is no checkpoint");
}

void sync_folder(const fs::path& folder, const FileCalls& calls) {
  const int fd = calls.open(folder.string(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw IoError(folder.string(), "open", -fd);
  const FileDescriptor owned(fd);
  if (const int result = calls.sync(fd); result < 0) throw IoError(folder.string(), "fsync", -result);
}

}  // namespace

CheckpointSave::CheckpointSave(Engine& engine, fs::path path, SaveContents contents, SaveMode mode,
                               const FileCalls& calls, StagingMemory* memory)
    : comm_(engine.resources().comm),
      ledger_(engine.resources().ledger),
      path_(path.has_filename() ? std::move(path) : path.parent_path()),
      temporary_(path_.string() + ".tmp"),
      calls_(calls),
      begin_(monotonic_seconds()),
      rank_(paused(engine), std::move(contents)),
      own_memory_(memory == nullptr ? std::make_unique<StagingMemory>(engine.resources()) : nullptr),
      memory_(memory == nullptr ? own_memory_.get() : memory) {
  require_same_outcome(comm_, path_.string(), failure_of([&] {
                         if (comm_.rank() == 0) make_folder();
                       }));
  if (mode == SaveMode::kSync) memory_->give_back();
  copied_ = mode == SaveMode::kAsync && memory_->has_room(rank_.size_bytes());
  // A rank that cannot copy reports it like a rank that cannot write.
  const std::string failure = failure_of([&] {
    if (copied_) {
      image_ = memory_->lend(rank_.size_bytes());
      rank_.copy_to(image_);
    }
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { write(); });
  });
  if (!thread_.joinable()) {  // a thread reports its own failure
    failure_ = failure;
    ended_ = true;
  }
  if (!copied_) wait_until_written();
  stalled_ = monotonic_seconds() - begin_;
}

CheckpointSave::~CheckpointSave() {
  give_up();
  give_image_back();
}

void CheckpointSave::give_up() {
  given_up_ = true;
  if (thread_.joinable()) thread_.join();
}

void CheckpointSave::give_image_back() {
  if (image_.empty()) return;
  memory_->take_back(std::exchange(image_, {}));
  if (own_memory_ != nullptr) own_memory_->give_back();
}

void CheckpointSave::make_folder() const {
  require_replaceable(path_);
  const fs::path parent = folder_of(path_);
  if (const int result = calls_.make_folder(parent.string()); result == 0) {
    sync_folder(folder_of(parent), calls_);
  } else if (result != -EEXIST) {
    throw IoError(parent.string(), "make the folder", -result);
  }
  remove_checkpoint(temporary_, calls_);  // left by a save that did not end
  if (const int result = calls_.make_folder(temporary_.string()); result < 0)
    throw IoError(temporary_.string(), "make the folder", -result);
}

void CheckpointSave::write() {
  std::string failure = failure_of([&] {
    const Charge blocks = charge_blocks(ledger_);
    BlockFileWriter writer((temporary_ / rank_.file_name()).string(), rank_.size_bytes(), calls_);
    const auto append = [&](std::span<const std::byte> bytes) {
      for (std::size_t size = 0; !bytes.empty(); bytes = bytes.subspan(size)) {
        if (given_up_) throw GivenUp();
        size = std::min<std::size_t>(kSumBlockBytes, bytes.size());
        writer.append(bytes.first(size));
      }
    };
    if (copied_) {
      append(image_);
    } else {
      rank_.stream(append);
    }
    if (!given_up_) content_ = writer.finish();
  });
  failure_ = std::move(failure);
  ended_ = true;
}

bool CheckpointSave::poll() {
  if (failed_ != nullptr) std::rethrow_exception(failed_);
  if (committed_) return true;
  if (!all_have_ended()) return false;
  try {
    commit();
  } catch (const IoError&) {
    failed_ = std::current_exception();
    throw;
  }
  return true;
}

bool CheckpointSave::all_have_ended() {
  return all_reduce_min(comm_, ended_ ? 1 : 0) == 1;
}

void CheckpointSave::wait() {
  ask_until([this] { return poll(); });
}

// Waits for the writing thread, the only reader of the states meanwhile.
void CheckpointSave::wait_until_written() {
  try {
    ask_until([this] { return all_have_ended(); });
  } catch (...) {
    give_up();
    throw;
  }
}

void CheckpointSave::commit() {
  if (thread_.joinable()) thread_.join();
  give_image_back();
  const auto remove_what_is_there = [this] {
    if (comm_.rank() == 0 && put_back_) remove_checkpoint(temporary_, calls_);
  };
  try {
    require_same_outcome(comm_, path_.string(), failure_);
    const auto texts = all_gather_text(comm_, rank_.file_text(content_));
    require_same_outcome(comm_, path_.string(), failure_of([&] {
                           if (comm_.rank() == 0) publish(to_text(rank_.manifest_with(texts, path_.string())));
                         }));
  } catch (const IoError&) {
    try {
      remove_what_is_there();
    } catch (const IoError&) {  // the first error is reported; the next save removes the rest
    }
    throw;
  }
  committed_ = true;
  seconds_ = monotonic_seconds() - begin_;
}

void CheckpointSave::publish(const std::string& text) {
  const Charge blocks = charge_blocks(ledger_);
  BlockFileWriter writer((temporary_ / kManifestName).string(), std::ssize(text), calls_);
  writer.append(std::as_bytes(std::span(text)));
  writer.finish();
  sync_folder(temporary_, calls_);
  take_the_name();
}

// After this call the parent folder is synced, or the names are as they were.
void CheckpointSave::take_the_name() {
  const std::string from = temporary_.string(), to = path_.string(), old = to + ".old.tmp";
  std::error_code ignored;
  const bool replaces = fs::exists(path_, ignored);
  bool exchanged = replaces;
  int result = replaces ? calls_.exchange(from, to) : calls_.rename(from, to);
  if (replaces && (result == -EINVAL || result == -ENOSYS)) {  // the file system cannot exchange names
    exchanged = false;
    remove_checkpoint(old, calls_);  // left by a save that ended here
    result = calls_.rename(to, old);
    if (result == 0 && (result = calls_.rename(from, to)) < 0) calls_.rename(old, to);
  }
  if (result < 0) throw IoError(to, replaces ? "replace at one moment" : "rename to this name", -result);
  try {
    sync_folder(folder_of(path_), calls_);
  } catch (const IoError&) {
    put_back_ = (exchanged ? calls_.exchange(from, to) : calls_.rename(to, from)) == 0;
    if (replaces && !exchanged) calls_.rename(old, to);
    throw;
  }
  if (!replaces) return;
  const std::string left = failure_of([&] { remove_checkpoint(exchanged ? from : old, calls_); });
  if (!left.empty()) ZERO_LOG(warn, "the checkpoint that was replaced is still there: {}", left);
}

std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return paths;
  if (error) throw IoError(folder.string(), "look at", error.value());
  if (status.type() != fs::file_type::directory) return paths;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  if (error) throw IoError(folder.string(), "list", error.value());
  return paths;
}

void remove_checkpoint(const fs::path& folder, const FileCalls& calls) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return;
  // Removes the manifest first: without it, the remains after a kill are never taken for a checkpoint.
  std::vector<fs::path> files{folder / kManifestName};
  for (const fs::path& path : paths_in(folder)) {
    if (path != files.front()) files.push_back(path);
  }
  for (const fs::path& file : files) {
    const int result = calls.unlink(file.string());
    if (result < 0 && result != -ENOENT) throw IoError(file.string(), "remove", -result);
  }
  if (const int result = calls.remove_folder(folder.string()); result < 0)
    throw IoError(folder.string(), "remove", -result);
}

}  // namespace zero
