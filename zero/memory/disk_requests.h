// DiskRequests: reads and writes of up to a stripe, each followed until all its bytes are moved or it has failed.
//
//   DiskRequests requests(std::move(queue), {.folders = {"/nvme0"}, .depth = 32});
//   DiskRequests::Account account;                        // of one transfer; stays where it is while account.open > 0
//   requests.start({.operation = IoOperation::kRead, .offset = 0, .memory = stripe}, account);
//   requests.wait(account);
//   if (account.error) throw *account.error;
//
// An answer means the same for every queue. Fewer bytes than asked for: the rest is asked for, from a page's start
// (O_DIRECT takes no other). EINTR and EAGAIN: once more. Any other error, or no byte moved: the request has failed,
// with folder, operation, bytes and place. The first error of an account is kept.
//
// A request without an answer for `timeout` is cancelled and given a grace, since a process that was itself stopped
// finds its answers late. Without an answer even then it has failed, and so does every later request. The kernel may
// still write to its memory (io_queue.h), so the run must end.
//
// Destroyed with requests under way, it waits for them. Local; one thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/error.h"
#include "zero/base/timeline.h"
#include "zero/memory/io_queue.h"

namespace zero {

struct DiskRequest {
  IoOperation operation = IoOperation::kRead;
  int file = 0;
  std::int64_t offset = 0;      // in the file
  std::span<std::byte> memory;  // whole pages
  std::int64_t place = 0;       // in the tier: the caller's own
  int unit = -1;                // whose bytes they are, for the timeline and for errors
};

class DiskRequests {
 public:
  struct Account {
    int open = 0;  // requests under way
    std::optional<IoError> error{};
  };

  struct Options {
    std::vector<std::string> folders{};  // of the files, for messages
    int depth = 32;
    std::chrono::milliseconds timeout{60000};
    // Looks at a request whose bytes are moved; an error makes it fail.
    std::function<std::optional<IoError>(const DiskRequest&)> inspect{};
    // Gets each request from its submission until somebody takes its answer: later than the disk gave it, where nobody
    // asked.
    Timeline* timeline = nullptr;
  };

  DiskRequests(std::unique_ptr<IoQueue> queue, Options options);
  DiskRequests(const DiskRequests&) = delete;
  DiskRequests& operator=(const DiskRequests&) = delete;
  ~DiskRequests();

  // Blocks while `depth` requests are under way. Throws nothing: a request that cannot be started has failed.
  void start(const DiskRequest& request, Account& account);
  bool full() const;  // start() would wait for an answer first: make_room()
  void make_room();
  void wait(const Account& account);  // until account.open is 0
  void poll();                        // takes what has been answered; does not block

  int num_under_way() const;  // for tests
  IoQueue& queue() { return *queue_; }
  std::int64_t read_bytes() const { return read_bytes_; }
  std::int64_t written_bytes() const { return written_bytes_; }
  double busy_seconds() const;  // with a request under way, until its answer was taken

  // "/nvme0: read of 1,048,576 bytes at 4,096"; `error_number` and `detail` as in IoError.
  IoError error_of(const DiskRequest& request, int error_number, std::string_view detail = "") const;

 private:
  using Clock = std::chrono::steady_clock;
  // The tag of a request is the index of its slot. One that was given up keeps its slot until it is answered.
  struct Slot {
    DiskRequest request{};
    Account* account = nullptr;  // null: free, or given up
    bool in_kernel = false;
    std::size_t moved = 0;  // bytes, whole pages
    int num_idle = 0;       // answers in a row that moved nothing
    Clock::time_point deadline{};
    bool answered = false;  // once at least
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
  double busy_since_ = 0;  // while there are any
  double busy_seconds_ = 0;
};

}  // namespace zero
