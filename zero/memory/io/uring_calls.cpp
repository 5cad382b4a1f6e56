#include "zero/memory/io/uring_calls.h"

#include <cerrno>

#include <liburing.h>

namespace zero {

const UringCalls& UringCalls::kernel() {
  static const UringCalls calls;
  return calls;
}

int UringCalls::set_up(unsigned entries, io_uring& ring) const {
  io_uring_params params{};
  const int result = io_uring_queue_init_params(entries, &ring, &params);
  if (result < 0) return result;
  // Older kernels needed a separate request to wait with a limit. All operations used here are older still.
  if ((params.features & IORING_FEAT_EXT_ARG) != 0) return 0;
  io_uring_queue_exit(&ring);
  return -ENOSYS;
}

int UringCalls::register_files(io_uring& ring, std::span<const int> files) const {
  return io_uring_register_files(&ring, files.data(), static_cast<unsigned>(files.size()));
}

int UringCalls::make_buffer_table(io_uring& ring, unsigned slots) const {
  return io_uring_register_buffers_sparse(&ring, slots);
}

int UringCalls::set_buffer(io_uring& ring, unsigned slot, const iovec& buffer) const {
  const __u64 tag = 0;
  return io_uring_register_buffers_update_tag(&ring, slot, &buffer, &tag, 1);
}

int UringCalls::submit(io_uring& ring) const {
  return io_uring_submit(&ring);
}

int UringCalls::wait(io_uring& ring, std::chrono::milliseconds limit) const {
  __kernel_timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  io_uring_cqe* first = nullptr;
  return io_uring_wait_cqe_timeout(&ring, &first, &time);
}

}  // namespace zero
