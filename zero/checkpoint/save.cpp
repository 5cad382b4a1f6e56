#include "zero/checkpoint/save.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/signals_blocked.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/safetensors/block_file.h"
#include "zero/comm/collectives.h"
#include "zero/memory/account/charge.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

// Ends a write that nobody waits for any more.
struct GivenUp : std::exception {};

RankEngine& paused(RankEngine& engine) {
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

}  // namespace

CheckpointSave::CheckpointSave(RankEngine& engine, fs::path path, SaveContents contents, SaveMode mode,
                               const FileCalls& calls, ImageMemory* memory)
    : comm_(engine.resources().comm),
      ledger_(engine.resources().ledger),
      folder_(std::move(path), calls),
      calls_(calls),
      begin_(monotonic_seconds()),
      rank_(paused(engine), std::move(contents)),
      own_memory_(memory == nullptr ? std::make_unique<ImageMemory>(engine.resources()) : nullptr),
      memory_(memory == nullptr ? own_memory_.get() : memory) {
  require_same_outcome(comm_, folder_.path().string(), failure_of([&] {
                         if (comm_.rank() == 0) folder_.make(is_part_of_checkpoint);
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
  if (made_here_.in_child()) {
    keep_forever(std::make_unique<std::thread>(std::move(thread_)));
    keep_forever(std::move(own_memory_));
    return;
  }
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

void CheckpointSave::write() {
  std::string failure = failure_of([&] {
    const Charge blocks = charge_blocks(ledger_);
    BlockFileWriter writer((folder_.temporary() / rank_.file_name()).string(), rank_.size_bytes(), calls_);
    SumsOfFile sums = rank_.sums_of_file();
    const auto append = [&](std::span<const std::byte> bytes) {
      for (std::size_t size = 0; !bytes.empty(); bytes = bytes.subspan(size)) {
        if (given_up_) throw GivenUp();
        size = std::min<std::size_t>(kSumBlockBytes, bytes.size());
        writer.append(bytes.first(size));
        sums.add(bytes.first(size));
      }
    };
    if (copied_) {
      append(image_);
    } else {
      rank_.stream(append);
    }
    if (given_up_) return;
    content_ = writer.finish();
    sums_ = sums.sums();
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
    if (comm_.rank() == 0) folder_.remove();
  };
  try {
    require_same_outcome(comm_, path().string(), failure_);
    const auto texts = all_gather_text(comm_, rank_.file_text(content_));
    StateSums sums;
    for (const std::string& of_rank : all_gather_text(comm_, to_text(sums_)))
      sums.merge(StateSums::of_text(of_rank).value());
    require_same_outcome(comm_, path().string(), failure_of([&] {
                           if (comm_.rank() == 0) publish(to_text(rank_.manifest_with(texts, path().string(), sums)));
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
  BlockFileWriter writer((folder_.temporary() / kManifestName).string(), std::ssize(text), calls_);
  writer.append(std::as_bytes(std::span(text)));
  writer.finish();
  folder_.publish();
}

}  // namespace zero
