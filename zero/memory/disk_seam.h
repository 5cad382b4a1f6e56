// DiskSeam: lets a test stand between a DiskTier and the kernel, with calls that fail, or a queue with answers of the
// test's choice.
//
//   DiskTier disk(options, {.files = &full_disk});
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "zero/memory/file_calls.h"
#include "zero/memory/io_queue.h"
#include "zero/memory/timed_calls.h"
#include "zero/memory/uring_calls.h"

namespace zero {

struct DiskSeam {
  const FileCalls* files = &FileCalls::kernel();
  const UringCalls* uring = &UringCalls::kernel();
  // Instead of the queue that the options ask for; gets the files and the depth.
  std::function<std::unique_ptr<IoQueue>(std::span<const int>, int)> make_queue{};

  // Of calls that open files, instead of the timeout of the options, which a test may want as short as its disk is.
  std::optional<std::chrono::milliseconds> opening_limit{};
  TimedCalls opening_calls(std::chrono::milliseconds timeout) const {
    return {*files, opening_limit.value_or(timeout)};
  }

  // What a test gave, or, without one, nothing.
  static const DiskSeam& or_none(const DiskSeam* given) {
    static const DiskSeam none;
    return given != nullptr ? *given : none;
  }
};

}  // namespace zero
