#include "zero/memory/io/uring_queue.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include <liburing.h>
#include <sys/uio.h>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"

namespace zero {
namespace {

constexpr std::uint64_t kNobody = std::numeric_limits<std::uint64_t>::max();  // tag of cancellations
constexpr std::size_t kLargestBuffer = std::size_t{1} << 30;  // limit of the kernel for registered buffers
constexpr unsigned kMostBuffers = 1024;

class UringQueue final : public IoQueue {
 public:
  UringQueue(std::span<const int> files, const UringCalls& calls) : calls_(calls), files_(files.begin(), files.end()) {}
  ~UringQueue() override;

  int open(int depth);
  int submit(const IoRequest& request) override;
  int reap(std::span<IoAnswer> into, std::chrono::milliseconds wait) override;
  void cancel(std::uint64_t tag) override;
  int register_memory(std::span<std::byte> memory) override;
  void forget_memory(std::span<std::byte> memory) override;
  std::string_view name() const override { return "io_uring"; }

 private:
  void prepare(io_uring_sqe& entry, const IoRequest& request) const;
  int set_free_slot(const iovec& buffer);
  int buffer_of(std::span<const std::byte> memory) const;
  int flush();
  int take_answers(std::span<IoAnswer> into);

  const UringCalls& calls_;
  std::vector<int> files_;
  bool files_registered_ = false;
  bool has_table_ = false;
  std::vector<iovec> buffers_;  // by slot of the table; 0 bytes: free
  io_uring ring_{};
  bool open_ = false;
  int broken_ = 0;  // errno value of a submission that the kernel refused permanently
  int num_under_way_ = 0;
};

int UringQueue::open(int depth) {
  // Twice the depth, for a request and its cancellation.
  if (const int result = calls_.set_up(2 * static_cast<unsigned>(depth), ring_); result < 0) return -result;
  open_ = true;
  const int result = calls_.register_files(ring_, files_);
  files_registered_ = result >= 0;
  if (!files_registered_ && say_once("io_uring registers no files"))
    ZERO_LOG(warn, "io_uring registers no files ({}): each request finds its file again", std::strerror(-result));
  return 0;
}

UringQueue::~UringQueue() {
  if (!open_) return;
  // The kernel releases a ring in the background, but files and locked memory must be free when this returns. With a
  // request that hangs they cannot be, and unregistering would wait for it.
  if (num_under_way_ == 0) {
    if (files_registered_) io_uring_unregister_files(&ring_);
    if (has_table_) io_uring_unregister_buffers(&ring_);
  }
  io_uring_queue_exit(&ring_);
}

void UringQueue::prepare(io_uring_sqe& entry, const IoRequest& request) const {
  const auto file = static_cast<std::size_t>(request.file);
  const int fd = files_registered_ ? request.file : files_.at(file);
  const auto offset = static_cast<__u64>(request.offset);
  const auto bytes = static_cast<unsigned>(request.memory.size());
  const int buffer = buffer_of(request.memory);
  void* const data = request.memory.data();
  if (request.operation == IoOperation::kRead) {
    buffer < 0 ? io_uring_prep_read(&entry, fd, data, bytes, offset)
               : io_uring_prep_read_fixed(&entry, fd, data, bytes, offset, buffer);
  } else {
    buffer < 0 ? io_uring_prep_write(&entry, fd, data, bytes, offset)
               : io_uring_prep_write_fixed(&entry, fd, data, bytes, offset, buffer);
  }
  if (files_registered_) io_uring_sqe_set_flags(&entry, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data64(&entry, request.tag);
}

int UringQueue::buffer_of(std::span<const std::byte> memory) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const auto* const begin = static_cast<const std::byte*>(buffers_[i].iov_base);
    if (begin != nullptr && memory.data() >= begin && memory.data() + memory.size() <= begin + buffers_[i].iov_len)
      return static_cast<int>(i);
  }
  return -1;
}

int UringQueue::submit(const IoRequest& request) {
  if (broken_ != 0) return broken_;
  ZERO_CHECK(request.tag != kNobody && request.file >= 0 && request.file < static_cast<int>(files_.size()));
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  ZERO_CHECK(entry != nullptr, "more requests under way than the queue's depth");
  prepare(*entry, request);
  const int error = flush();
  if (error == 0) ++num_under_way_;
  return error;
}

// Requests for which the kernel has no room now (EAGAIN, EBUSY) stay in the ring, and are submitted with the next call.
int UringQueue::flush() {
  int result;
  do result = calls_.submit(ring_);
  while (result == -EINTR);
  if (result < 0 && result != -EAGAIN && result != -EBUSY) broken_ = -result;
  return broken_;
}

int UringQueue::reap(std::span<IoAnswer> into, std::chrono::milliseconds wait) {
  if (const int count = take_answers(into); count > 0) return count;
  if (broken_ == 0 && io_uring_sq_ready(&ring_) > 0) {
    if (flush() != 0) return -broken_;
    if (io_uring_sq_ready(&ring_) > 0) wait = std::min(wait, std::chrono::milliseconds(1));
  }
  if (wait.count() <= 0) return 0;
  const int result = calls_.wait(ring_, wait);
  if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN) return result;
  return take_answers(into);
}

int UringQueue::take_answers(std::span<IoAnswer> into) {
  int count = 0;
  io_uring_cqe* entry = nullptr;
  while (count < static_cast<int>(into.size()) && io_uring_peek_cqe(&ring_, &entry) == 0) {
    const IoAnswer answer{io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    if (answer.tag == kNobody) continue;
    into[static_cast<std::size_t>(count++)] = answer;
    --num_under_way_;
  }
  return count;
}

void UringQueue::cancel(std::uint64_t tag) {
  if (broken_ != 0) return;
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) return;  // no entry is free, because cancellations were queued before
  io_uring_prep_cancel64(entry, tag, 0);
  io_uring_sqe_set_data64(entry, kNobody);
  flush();
}

int UringQueue::register_memory(std::span<std::byte> memory) {
  if (!has_table_) {
    if (const int result = calls_.make_buffer_table(ring_, kMostBuffers); result < 0) return -result;
    has_table_ = true;
  }
  for (std::span<std::byte> left = memory; !left.empty(); left = left.subspan(std::min(left.size(), kLargestBuffer))) {
    if (const int error = set_free_slot({left.data(), std::min(left.size(), kLargestBuffer)}); error != 0) {
      forget_memory(memory);
      return error;
    }
  }
  return 0;
}

int UringQueue::set_free_slot(const iovec& buffer) {
  const auto free = std::ranges::find(buffers_, std::size_t{0}, &iovec::iov_len);
  const auto slot = static_cast<std::size_t>(free - buffers_.begin());
  if (slot == kMostBuffers) return ENOSPC;
  if (const int result = calls_.set_buffer(ring_, static_cast<unsigned>(slot), buffer); result < 0) return -result;
  if (slot == buffers_.size()) buffers_.emplace_back();
  buffers_[slot] = buffer;
  return 0;
}

// A slot that the kernel does not empty is not reused: its pages stay locked until the ring is closed.
void UringQueue::forget_memory(std::span<std::byte> memory) {
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    iovec& buffer = buffers_[slot];
    const auto* const begin = static_cast<const std::byte*>(buffer.iov_base);
    if (buffer.iov_len == 0 || begin < memory.data() || begin >= memory.data() + memory.size()) continue;
    const bool emptied = calls_.set_buffer(ring_, static_cast<unsigned>(slot), {}) >= 0;
    buffer = emptied ? iovec{} : iovec{nullptr, kLargestBuffer};
  }
}

}  // namespace

UringOpening open_uring_queue(std::span<const int> files, int depth, const UringCalls& calls) {
  auto queue = std::make_unique<UringQueue>(files, calls);
  if (const int error = queue->open(depth); error != 0) return {nullptr, error};
  return {std::move(queue), 0};
}

}  // namespace zero
