// DiskRequests: reads and writes of up to a stripe; each is continued until all its bytes are moved or it has failed.
//
//   DiskRequests requests(std::move(queue), {.folders = {"/nvme0"}, .depth = 32});
//   DiskRequests::Account account;                // of one transfer; must not be moved while account.open > 0
//   requests.start({.operation = IoOperation::kRead, .offset = 0, .memory = stripe}, account);
//   requests.wait(account);
//   if (account.error) throw *account.error;
//
// An answer means the same for every queue. Fewer bytes than requested: the rest is requested again, from a page's
// start (as O_DIRECT requires). EINTR and EAGAIN: retried. Any other error, or no progress: the request fails, with
// folder, operation, bytes and offset. An account keeps its first error. A request without an answer for `timeout` is
// cancelled, and gets a grace period, because a process that was itself stopped finds its answers late. If it still has
// no answer, it fails, and so does every later request. The kernel may still write to its memory (io_queue.h), so the
// run must end. The destructor waits for requests under way. Local; one thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/error/error.h"
#include "zero/base/process/timeline.h"
#include "zero/memory/io/io_queue.h"

namespace zero {

struct DiskRequest {
  IoOperation operation = IoOperation::kRead;
  int file = 0;
  std::int64_t offset = 0;      // offset in the file
  std::span<std::byte> memory;  // whole pages
  std::int64_t place = 0;       // offset in the tier; for the caller
  int unit = -1;                // the unit of the bytes, for the timeline and for errors
};

class DiskRequests {
 public:
  struct Account {
    int open = 0;  // number of requests under way
    std::optional<IoError> error{};
  };

  struct Options {
    std::vector<std::string> folders{};  // folders of the files, for messages
    int depth = 32;
    std::chrono::milliseconds timeout{60000};
    // Inspects a completed request; an error makes it fail.
    std::function<std::optional<IoError>(const DiskRequest&)> inspect{};
    // Records each request from submission until its answer is taken. If nobody asks, that is later than the disk's
    // answer.
    Timeline* timeline = nullptr;
  };

  DiskRequests(std::unique_ptr<IoQueue> queue, Options options);
  DiskRequests(const DiskRequests&) = delete;
  DiskRequests& operator=(const DiskRequests&) = delete;
  ~DiskRequests();

  // Blocks while `depth` requests are under way. Does not throw: a request that cannot be started counts as failed.
  void start(const DiskRequest& request, Account& account);
  bool full() const;  // start() would wait for an answer first: make_room()
  void make_room();
  void wait(const Account& account);  // until account.open is 0
  void poll();                        // takes available answers; does not block

  int num_under_way() const;  // for tests
  IoQueue& queue() { return *queue_; }
  std::int64_t read_bytes() const { return read_bytes_; }
  std::int64_t written_bytes() const { return written_bytes_; }
  double busy_seconds() const;  // time with requests under way, until their answers were taken

  // Makes an error: "/nvme0: read of 1,048,576 bytes at 4,096". `error_number` and `detail`: as in IoError.
  IoError error_of(const DiskRequest& request, int error_number, std::string_view detail = "") const;

 private:
  using Clock = std::chrono::steady_clock;
  // The tag of a request is the index of its slot. A request that was given up keeps its slot until it is answered.
  struct Slot {
    DiskRequest request{};
    Account* account = nullptr;  // null: free, or given up
    bool in_kernel = false;
    std::size_t moved = 0;  // bytes, whole pages
    int num_idle = 0;       // consecutive answers without progress
    Clock::time_point deadline{};
    bool answered = false;  // whether it was answered at least once
    TimedSpan span{};
  };

  Slot* free_slot();
  void submit(Slot& slot);
  void advance();
  int reap(std::chrono::milliseconds wait);
  void take(const IoAnswer& answer);
  void retry(Slot& slot, int error_number);
  void close(Slot& slot, std::optional<IoError> error);
  void call_off_late();
  void require_apart(const DiskRequest& request) const;
  IoError no_answer(const DiskRequest& request) const;

  std::unique_ptr<IoQueue> queue_;
  Options options_;
  std::vector<Slot> slots_;
  std::optional<IoError> broken_;
  std::int64_t read_bytes_ = 0;
  std::int64_t written_bytes_ = 0;
  int num_in_kernel_ = 0;
  double busy_since_ = 0;  // while requests are in the kernel
  double busy_seconds_ = 0;
};

}  // namespace zero
