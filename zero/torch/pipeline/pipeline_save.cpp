#include "zero/torch/pipeline/pipeline_save.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/join_sections.h"
#include "zero/comm/collectives.h"

namespace zero {

PipelineSave::PipelineSave(Communicator& run, std::filesystem::path path, std::vector<int> sections, const Begin& begin)
    : run_(run), path_(std::move(path)), sections_(std::move(sections)), begin_(monotonic_seconds()) {
  bool copied = true;
  require_same_outcome(run_, path_.string(), [&] {
    for (const int section : sections_) {
      std::unique_ptr<CheckpointSave> part = begin(section);
      if (part == nullptr) continue;
      copied = copied && part->copied();
      parts_.push_back(std::move(part));
    }
  });
  copied_ = all_reduce_min(run_, copied ? 1 : 0) == 1;
  stalled_ = monotonic_seconds() - begin_;
}

// The ranks of each section ask each other; then all ranks do.
bool PipelineSave::poll() {
  if (failed_ != nullptr) std::rethrow_exception(failed_);
  if (published_) return true;
  bool ended = true;
  for (const auto& part : parts_) {
    const std::string failure = failure_of([&] { ended = part->poll() && ended; });
    if (!failure.empty()) failure_ = failure;
  }
  if (all_reduce_min(run_, ended ? 1 : 0) == 0) return false;
  try {
    publish();
  } catch (const IoError&) {
    failed_ = std::current_exception();
    throw;
  }
  return true;
}

void PipelineSave::wait() {
  constexpr std::chrono::microseconds kFirst{100}, kLongest{5000};
  for (auto pause = kFirst; !poll(); pause = std::min(2 * pause, kLongest)) std::this_thread::sleep_for(pause);
}

void PipelineSave::publish() {
  try {
    require_same_outcome(run_, path_.string(), failure_);
    require_same_outcome(run_, path_.string(), failure_of([&] {
                           if (run_.rank() == 0) join_sections(path_, sections_);
                         }));
  } catch (const IoError&) {  // on every rank; the first error is reported
    if (run_.rank() == 0) failure_of([&] { remove_sections(path_, sections_); });
    run_.barrier({}).wait();  // the next save may have this path
    throw;
  }
  published_ = true;
  seconds_ = monotonic_seconds() - begin_;
}

std::int64_t PipelineSave::size_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->size_bytes();
  return bytes;
}

}  // namespace zero
