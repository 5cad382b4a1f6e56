#include "zero/comm/transport/recorded_communicator.h"

#include <string_view>
#include <utility>

#include "zero/base/error/log.h"
#include "zero/base/process/clock.h"
#include "zero/comm/flight/file.h"

namespace zero {

namespace {

constexpr std::string_view kLeft = ": it left ";  // words of BoardWait and MessageCommunicator

}  // namespace

void RecordedCommunicator::met(const CommError& error, double began) {
  run_.write({.reason = error.what(),
              .blamed = error.rank(),
              .waited_ns = static_cast<std::int64_t>(1e9 * (monotonic_seconds() - began))});
}

template <class Part>
auto RecordedCommunicator::watch(std::uint64_t number, Part part) {
  made_here_.refuse_in_child(run_.rank());
  const double began = monotonic_seconds();
  try {
    return part();
  } catch (const CommError& error) {
    end(number, /*failed=*/true);
    met(error, began);
    throw;
  } catch (...) {
    end(number, /*failed=*/true);
    throw;
  }
}

class RecordedCommunicator::RecordedWait final : public Work::Operation {
 public:
  RecordedWait(RecordedCommunicator& comm, std::uint64_t number, Work inner)
      : comm_(comm), number_(number), inner_(std::move(inner)) {}
  void wait() override {
    comm_.watch(number_, [this] { inner_.wait(); });
    comm_.end(number_);
  }
  bool try_complete() override {
    return comm_.watch(number_, [this] { return inner_.try_complete(); });
  }

 private:
  RecordedCommunicator& comm_;
  std::uint64_t number_;
  Work inner_;
};

RecordedCommunicator::RecordedCommunicator(std::unique_ptr<Communicator> inner, Allocation memory,
                                           const FlightIdentity& identity)
    : run_(*this), memory_(std::move(memory)), inner_(std::move(inner)) {
  ring_.emplace(memory_.bytes(), identity);
}

RecordedCommunicator::RecordedCommunicator(RecordedCommunicator& run, std::unique_ptr<Communicator> inner, int number)
    : run_(run), group_(number), inner_(std::move(inner)) {}

RecordedCommunicator::~RecordedCommunicator() {
  if (made_here_.in_child()) keep_forever(std::move(inner_));
}

std::unique_ptr<Communicator> RecordedCommunicator::open(const GroupPlace& place) {
  std::unique_ptr<Communicator> inner = watch(0, [&] { return inner_->groups()->open(place); });
  const int number = run_.ring_->add_group(place.text());
  return std::unique_ptr<Communicator>(new RecordedCommunicator(run_, std::move(inner), number));
}

void RecordedCommunicator::end(std::uint64_t number, bool failed) {
  if (number != 0) run_.ring_->end(number, failed);
}

void RecordedCommunicator::write(const FlightCause& cause) noexcept {
  if (made_here_.in_child()) return;
  if (&run_ != this) return run_.write(cause);
  // Also without a folder: a launcher that holds the ring learns that this rank is not the first to fail.
  if (cause.blamed >= 0 && cause.blamed < world() && cause.blamed != rank())
    ring_->note_lost({.rank = cause.blamed, .left = cause.reason.find(kLeft) != std::string::npos});
  if (folder_.empty() || std::exchange(written_, true)) return;
  try {
    const std::filesystem::path file = write_flight(folder_, ring_->memory(), cause);
    ring_->mark_written();
    // Not all ranks say so: only the rank at fault, which may not get here, and the first of the others.
    const bool first = rank() == (cause.blamed == 0 ? 1 : 0);
    if (prints_ && (first || cause.blamed == rank())) {
      ZERO_LOG(warn, "the last collectives of each rank: zero doctor --flight {}", folder_.string());
    } else {
      ZERO_LOG(info, "the last collectives of this rank are in {}", file.string());
    }
  } catch (const std::exception& error) {
    ZERO_LOG(error, "the last collectives of this rank could not be written: {}", error.what());
  }
}

template <class Begin>
Work RecordedCommunicator::record(const FlightCall& call, Begin begin) {
  made_here_.refuse_in_child(run_.rank());
  const std::uint64_t number = group_ < 0 ? 0 : run_.ring_->begin(call, group_);
  Work inner = watch(number, begin);
  if (inner.finished()) {
    end(number);
    return {};
  }
  return Work(std::make_unique<RecordedWait>(*this, number, std::move(inner)));
}

Work RecordedCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  // The size that all ranks have in common.
  const std::size_t bytes = tag.blocks.equal() ? in.size() : out.size();
  return record({.operation = FlightOperation::kAllGather, .unit = tag.unit, .bytes = bytes},
                [&] { return inner_->all_gather(in, out, tag); });
}

Work RecordedCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  return record({.operation = FlightOperation::kAllToAll, .unit = tag.unit, .bytes = in.size()},
                [&] { return inner_->all_to_all(in, out, tag); });
}

Work RecordedCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  return record(
      {.operation = FlightOperation::kBroadcast, .unit = tag.unit, .bytes = data.size(), .peer = world_rank(root)},
      [&] { return inner_->broadcast(data, root, tag); });
}

Work RecordedCommunicator::send(std::span<const std::byte> data, int to, CommTag tag) {
  return record({.operation = FlightOperation::kSend, .unit = tag.unit, .bytes = data.size(), .peer = world_rank(to)},
                [&] { return inner_->send(data, to, tag); });
}

Work RecordedCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  return record(
      {.operation = FlightOperation::kReceive, .unit = tag.unit, .bytes = data.size(), .peer = world_rank(from)},
      [&] { return inner_->receive(data, from, tag); });
}

Work RecordedCommunicator::barrier(CommTag tag) {
  return record({.operation = FlightOperation::kBarrier, .unit = tag.unit}, [&] { return inner_->barrier(tag); });
}

Work RecordedCommunicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  return record({.operation = FlightOperation::kReduceScatter, .unit = tag.unit, .bytes = request.in.size()},
                [&] { return inner_->reduce_scatter(request, tag); });
}

bool RecordedCommunicator::await(const std::function<bool()>& ready, std::chrono::milliseconds limit) {
  return watch(0, [&] { return inner_->arrivals()->await(ready, limit); });
}

void RecordedCommunicator::fail_everywhere(int rank, const std::string& operation, const std::string& reason) {
  watch(0, [&] { inner_->arrivals()->fail(rank, operation, reason); });
}

void RecordedCommunicator::drain() {
  watch(0, [this] { inner_->drain(); });
}

}  // namespace zero
