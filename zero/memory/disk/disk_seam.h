// DiskSeam: lets a test replace the kernel under a DiskTier, by calls that fail, or a queue with chosen answers.
//
//   DiskTier disk(options, {.files = &full_disk});
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "zero/memory/io/file_calls.h"
#include "zero/memory/io/io_queue.h"
#include "zero/memory/io/timed_calls.h"
#include "zero/memory/io/uring_calls.h"

namespace zero {

struct DiskSeam {
  const FileCalls* files = &FileCalls::kernel();
  const UringCalls* uring = &UringCalls::kernel();
  // Makes the queue, instead of the options' engine; receives the files and the depth.
  std::function<std::unique_ptr<IoQueue>(std::span<const int>, int)> make_queue{};

  // Time limit of calls that open files; overrides DiskOptions::timeout in tests.
  std::optional<std::chrono::milliseconds> opening_limit{};
  TimedCalls opening_calls(std::chrono::milliseconds timeout) const {
    return {*files, opening_limit.value_or(timeout)};
  }

  // Returns the test's seam, or the default one.
  static const DiskSeam& or_none(const DiskSeam* given) {
    static const DiskSeam none;
    return given != nullptr ? *given : none;
  }
};

}  // namespace zero
