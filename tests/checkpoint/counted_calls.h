// CountedCalls: file calls that fail from a chosen one on. TwoSaves: two saves at one path, of which the second may
// fail.
#pragma once

#include <atomic>
#include <filesystem>
#include <vector>

#include <fcntl.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/read/checkpoint_reader.h"

#include "tests/checkpoint/saved_model.h"

namespace zero {

// Counts the kernel's calls that change files. From number `last` on these calls do nothing and fail, as if the process
// had ended. With `recovers` only that one call fails. `all_end`: shared by ranks; from that call on the calls of all
// of them fail.
class CountedCalls final : public FileCalls {
 public:
  explicit CountedCalls(int last, int error = -EIO, bool recovers = false, std::atomic<bool>* all_end = nullptr)
      : last_(last), error_(error), recovers_(recovers), all_end_(all_end) {}
  int count() const { return count_; }

  int open(const std::string& path, int flags) const override {
    if ((flags & O_CREAT) == 0) return FileCalls::open(path, flags);
    return dead() ? error_ : FileCalls::open(path, flags);
  }
  int unlink(const std::string& path) const override { return dead() ? error_ : FileCalls::unlink(path); }
  int preallocate(int fd, std::int64_t bytes) const override {
    return dead() ? error_ : FileCalls::preallocate(fd, bytes);
  }
  int resize(int fd, std::int64_t bytes) const override { return dead() ? error_ : FileCalls::resize(fd, bytes); }
  int sync(int fd) const override { return dead() ? error_ : FileCalls::sync(fd); }
  int make_folder(const std::string& path) const override { return dead() ? error_ : FileCalls::make_folder(path); }
  int remove_folder(const std::string& path) const override { return dead() ? error_ : FileCalls::remove_folder(path); }
  int rename(const std::string& from, const std::string& to) const override {
    return dead() ? error_ : FileCalls::rename(from, to);
  }
  int exchange(const std::string& one, const std::string& other) const override {
    return dead() ? error_ : FileCalls::exchange(one, other);
  }
  ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const override {
    if (!dead()) return FileCalls::write(fd, from, offset);
    // A torn write stores half of the bytes.
    (void)FileCalls::write(fd, from.first(from.size() / 2 / 4096 * 4096), offset);
    return error_;
  }

 private:
  bool dead() const {
    const int now = count_++;
    if (all_end_ != nullptr && now == last_) *all_end_ = true;
    if (all_end_ != nullptr && *all_end_) return true;
    return recovers_ ? now == last_ : now >= last_;
  }
  int last_, error_;
  bool recovers_;
  std::atomic<bool>* all_end_;
  mutable std::atomic<int> count_{0};
};

inline constexpr int kNever = 1 << 30;

// The step in a checkpoint, or -1 if nothing has its name. Verifies every byte.
inline std::int64_t step_at(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return -1;
  CheckpointReader reader(path);
  reader.verify();
  return reader.manifest().steps;
}

// Saves one step, trains one more, and saves it at the same path with the given calls.
class TwoSaves {
 public:
  explicit TwoSaves(Communicator& comm, const std::filesystem::path& path, SaveMode mode = SaveMode::kSync,
                    const std::vector<ParamSpec>& specs = small_specs())
      : model_(comm, specs, options_of({.world = comm.world()})), path_(path), mode_(mode) {
    model_.train(0);
    save_now(model_.engine(), path_, mode_);
    model_.train(1);
  }
  void second(const FileCalls& calls) { save_now(model_.engine(), path_, mode_, calls); }

 private:
  ScriptedModel model_;
  std::filesystem::path path_;
  SaveMode mode_;
};

}  // namespace zero
