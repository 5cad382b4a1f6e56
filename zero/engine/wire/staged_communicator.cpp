#include "zero/engine/wire/staged_communicator.h"

#include <array>
#include <exception>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"

namespace zero {

// A collective between staged bytes, from its call to its end.
class StagedCommunicator::Staged final : public Work::Operation {
 public:
  Staged(StagedCommunicator& comm, const Blocks& blocks, Mark down, std::function<Work()> begin)
      : comm_(comm), blocks_(blocks), down_(std::move(down)), begin_(std::move(begin)) {}
  ~Staged() override { std::erase(comm_.queued_, this); }

  const Mark& down() const { return down_; }
  bool begun() const { return begin_ == nullptr; }
  void begin() {
    const std::array staged{reads(blocks_.sent), changes(blocks_.made)};
    comm_.device_.host_touches(staged, "a collective between ranks");
    work_ = std::exchange(begin_, nullptr)();
  }

  void wait() override {
    comm_.begin_until(*this);
    work_.wait();
    lift();
    if (!blocks_.sent.empty()) comm_.staging_.release(blocks_.sent.data());  // the host has seen its copy down
    if (!blocks_.made.empty()) comm_.staging_.release(blocks_.made.data(), used_in(comm_.device_, Lane::kUp));
  }
  bool try_complete() override {
    comm_.begin_those_down();
    if (!begun() || !work_.try_complete()) return false;
    lift();
    return true;
  }

 private:
  void lift() {
    if (std::exchange(lifted_, true) || blocks_.to.empty()) return;
    comm_.device_.copy(Lane::kUp, blocks_.to, blocks_.made);
  }

  StagedCommunicator& comm_;
  Blocks blocks_;
  Mark down_;
  std::function<Work()> begin_;  // null once it has begun
  Work work_;
  bool lifted_ = false;
};

StagedCommunicator::StagedCommunicator(Communicator& comm, Device& device, Ledger& ledger, Begin begin)
    : comm_(comm),
      device_(device),
      begin_(begin),
      staging_([&device](std::size_t bytes) { return device.allocate_pinned(bytes); }, ledger, MemoryTag::kStaging,
               Tier::kHost, [&comm] { comm.drain(); }, device),
      sum_([&comm](const ReduceScatter& request, CommTag tag) { return comm.reduce_scatter(request, tag); }) {}

StagedCommunicator::~StagedCommunicator() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    comm_.drain();
  } catch (const std::exception& error) {
    ZERO_LOG(error, "ranks failed while an engine ended: {}", error.what());
  }
}

std::span<std::byte> StagedCommunicator::stage(std::size_t bytes, std::optional<Lane> first) {
  if (bytes == 0) return {};
  return {staging_.acquire(static_cast<std::int64_t>(bytes), 0, MemoryTag::kStaging, first), bytes};
}

std::span<std::byte> StagedCommunicator::bring_down(Lane lane, std::span<const std::byte> bytes) {
  const std::span<std::byte> staged = stage(bytes.size(), lane);
  device_.copy(lane, staged, bytes);
  return staged;
}

Work StagedCommunicator::queue(Lane lane, const Blocks& blocks, std::function<Work()> begin) {
  auto staged = std::make_unique<Staged>(*this, blocks, device_.mark(lane), std::move(begin));
  queued_.push_back(staged.get());
  begin_ == Begin::kAtOnce ? begin_until(*staged) : begin_those_down();
  return Work(std::move(staged));
}

void StagedCommunicator::begin_those_down() {
  while (!queued_.empty() && device_.done(queued_.front()->down())) begin_first();
}

void StagedCommunicator::begin_until(const Staged& last) {
  while (!last.begun()) {
    join_working(device_, queued_.front()->down(), work_meanwhile_);
    begin_first();
  }
}

void StagedCommunicator::begin_first() {
  Staged& first = *queued_.front();
  queued_.pop_front();
  first.begin();
}

// This rank's part may be in its place in `out`, in staged memory also.
Work StagedCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const std::span<std::byte> sent = bring_down(Lane::kDown, in), whole = stage(out.size());
  return queue(Lane::kDown, {.made = whole, .to = out, .sent = sent},
               [=, this] { return comm_.all_gather(sent, whole, tag); });
}

Work StagedCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const std::span<std::byte> sent = bring_down(Lane::kDown, in), came = stage(out.size());
  return queue(Lane::kDown, {.made = came, .to = out, .sent = sent},
               [=, this] { return comm_.all_to_all(sent, came, tag); });
}

Work StagedCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  const std::span<std::byte> staged = bring_down(Lane::kDown, data);
  return queue(Lane::kDown, {.made = staged, .to = data}, [=, this] { return comm_.broadcast(staged, root, tag); });
}

Work StagedCommunicator::send(std::span<const std::byte> data, int to, CommTag tag) {
  const std::span<std::byte> staged = bring_down(Lane::kDown, data);
  return queue(Lane::kDown, {.sent = staged}, [=, this] { return comm_.send(staged, to, tag); });
}

Work StagedCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  const std::span<std::byte> staged = stage(data.size());
  return queue(Lane::kDown, {.made = staged, .to = data}, [=, this] { return comm_.receive(staged, from, tag); });
}

Work StagedCommunicator::barrier(CommTag tag) {
  return queue(Lane::kDown, {}, [=, this] { return comm_.barrier(tag); });
}

Work StagedCommunicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  ZERO_CHECK(request.onto.empty(), "a sum on a device begins with the first rank's");
  ReduceScatter staged = request;
  const std::span<std::byte> sent = bring_down(Lane::kReduce, request.in);
  const std::span<std::byte> sum =
      request.accumulate ? bring_down(Lane::kReduce, request.out) : stage(request.out.size());
  staged.in = sent;
  staged.out = sum;
  return queue(Lane::kReduce, {.made = sum, .to = request.out, .sent = sent}, [=, this] { return sum_(staged, tag); });
}

Allocation StagedCommunicator::allocate(std::size_t bytes, Written /*written*/) {
  return device_.allocate(bytes);
}

}  // namespace zero
