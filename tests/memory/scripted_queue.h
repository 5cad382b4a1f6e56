// ScriptedDisk: a disk in memory whose answers a test decides.
//
//   ScriptedDisk disk;
//   disk.answer = [](const IoRequest&) { return -EIO; };
//   DiskRequests requests(disk.queue(), {...});
//
// The queue delivers answers in the order of their requests, at reap().
#pragma once

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "zero/base/error/check.h"
#include "zero/memory/io/io_queue.h"

namespace zero {

struct ScriptedDisk {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

  // The number of moved bytes of a request, a negative errno value, or kNever. Default: all bytes.
  std::function<std::int64_t(const IoRequest&)> answer = [](const IoRequest& request) {
    return static_cast<std::int64_t>(request.memory.size());
  };
  // The answer to the cancellation of a request that has none.
  std::function<std::int64_t(const IoRequest&)> answer_to_cancel = [](const IoRequest&) { return kNever; };
  int submit_error = 0;
  int reap_error = 0;
  bool answers_look = true;  // false: only a reap() that waits gets answers

  std::vector<IoRequest> asked;                 // all requests so far
  std::map<int, std::vector<std::byte>> files;  // contents by file number
  std::size_t most_under_way = 0;

  std::unique_ptr<IoQueue> queue();

  // Moves the bytes as a kernel does.
  void move(const IoRequest& request, std::int64_t bytes) {
    ZERO_CHECK(bytes <= static_cast<std::int64_t>(request.memory.size()), "the test moves more than was asked for");
    auto& file = files[request.file];
    file.resize(std::max(file.size(), static_cast<std::size_t>(request.offset + bytes)));
    std::byte* const there = file.data() + request.offset;
    request.operation == IoOperation::kRead
        ? std::memcpy(request.memory.data(), there, static_cast<std::size_t>(bytes))
        : std::memcpy(there, request.memory.data(), static_cast<std::size_t>(bytes));
  }
};

class ScriptedQueue final : public IoQueue {
 public:
  explicit ScriptedQueue(ScriptedDisk& disk) : disk_(disk) {}

  int submit(const IoRequest& request) override {
    if (disk_.submit_error != 0) return disk_.submit_error;
    disk_.asked.push_back(request);
    const std::int64_t result = disk_.answer(request);
    result == ScriptedDisk::kNever ? unanswered_.push_back(request) : reply(request, result);
    disk_.most_under_way = std::max(disk_.most_under_way, unanswered_.size() + answers_.size());
    return 0;
  }

  int reap(std::span<IoAnswer> into, std::chrono::milliseconds wait) override {
    if (disk_.reap_error != 0) return -disk_.reap_error;
    if (!disk_.answers_look && wait == std::chrono::milliseconds(0)) return 0;
    if (answers_.empty()) std::this_thread::sleep_for(wait);
    if (answers_.empty() || into.empty()) return 0;
    into[0] = answers_.front();
    answers_.pop_front();
    return 1;
  }

  void cancel(std::uint64_t tag) override {
    std::erase_if(unanswered_, [&](const IoRequest& request) {
      if (request.tag != tag) return false;
      const std::int64_t result = disk_.answer_to_cancel(request);
      if (result != ScriptedDisk::kNever) reply(request, result);
      return result != ScriptedDisk::kNever;
    });
  }

  int register_memory(std::span<std::byte>) override { return ENOTSUP; }
  void forget_memory(std::span<std::byte>) override {}
  std::string_view name() const override { return "scripted"; }

 private:
  void reply(const IoRequest& request, std::int64_t result) {
    if (result > 0) disk_.move(request, result);
    answers_.push_back({request.tag, result});
  }

  ScriptedDisk& disk_;
  std::vector<IoRequest> unanswered_;
  std::deque<IoAnswer> answers_;
};

inline std::unique_ptr<IoQueue> ScriptedDisk::queue() {
  return std::make_unique<ScriptedQueue>(*this);
}

}  // namespace zero
