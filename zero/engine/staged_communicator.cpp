#include "zero/engine/staged_communicator.h"

#include <utility>

#include "zero/base/check.h"

namespace zero {

// A collective between staged bytes. What it has made goes up, and staging goes back.
class StagedCommunicator::Staged final : public Work::Operation {
 public:
  Staged(StagedCommunicator& comm, Work work, std::span<std::byte> made, std::span<std::byte> to,
         std::span<std::byte> also)
      : comm_(comm), work_(std::move(work)), made_(made), to_(to), also_(also) {}

  void wait() override {
    work_.wait();
    if (!to_.empty()) {
      follow_all(comm_.device_, Lane::kUp);
      comm_.device_.copy(Lane::kUp, to_, made_);
      comm_.device_.join(comm_.device_.mark(Lane::kUp));
    }
    for (const std::span<std::byte> block : {made_, also_})
      if (!block.empty()) comm_.staging_.release(block.data());
  }

 private:
  StagedCommunicator& comm_;
  Work work_;
  std::span<std::byte> made_, to_, also_;
};

StagedCommunicator::StagedCommunicator(Communicator& comm, Device& device, Ledger& ledger)
    : comm_(comm),
      device_(device),
      staging_([&device](std::size_t bytes) { return device.allocate_pinned(bytes); }, ledger, MemoryTag::kStaging,
               Tier::kHost, [&comm] { comm.drain(); }) {}

std::span<std::byte> StagedCommunicator::stage(std::size_t bytes) {
  if (bytes == 0) return {};
  return {staging_.acquire(static_cast<std::int64_t>(bytes), 0), bytes};
}

std::span<std::byte> StagedCommunicator::bring_down(std::span<const std::byte> bytes) {
  const std::span<std::byte> staged = stage(bytes.size());
  if (staged.empty()) return staged;
  follow_all(device_, Lane::kDown);
  device_.copy(Lane::kDown, staged, bytes);
  device_.join(device_.mark(Lane::kDown));
  return staged;
}

Work StagedCommunicator::returning(Work work, std::span<std::byte> up, std::span<std::byte> to,
                                   std::span<std::byte> also) {
  return Work(std::make_unique<Staged>(*this, std::move(work), up, to, also));
}

// This rank's part may lie in its place in `out`; the staged one does so, too.
Work StagedCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const std::span<std::byte> sent = bring_down(in), whole = stage(out.size());
  return returning(comm_.all_gather(sent, whole, tag), whole, out, sent);
}

Work StagedCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const std::span<std::byte> sent = bring_down(in), came = stage(out.size());
  return returning(comm_.all_to_all(sent, came, tag), came, out, sent);
}

Work StagedCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  const std::span<std::byte> staged = bring_down(data);
  return returning(comm_.broadcast(staged, root, tag), staged, data);
}

Work StagedCommunicator::send(std::span<const std::byte> data, int to, CommTag tag) {
  const std::span<std::byte> staged = bring_down(data);
  return returning(comm_.send(staged, to, tag), {}, {}, staged);
}

Work StagedCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  const std::span<std::byte> staged = stage(data.size());
  return returning(comm_.receive(staged, from, tag), staged, data);
}

Work StagedCommunicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  ZERO_CHECK(request.onto.empty(), "a sum on a device begins with the first rank's");
  const std::span<std::byte> sent = bring_down(request.in);
  const std::span<std::byte> sum = request.accumulate ? bring_down(request.out) : stage(request.out.size());
  ReduceScatter staged = request;
  staged.in = sent;
  staged.out = sum;
  return returning(comm_.reduce_scatter(staged, tag), sum, request.out, sent);
}

void StagedCommunicator::drain() {
  comm_.drain();
  join_all(device_);
}

Allocation StagedCommunicator::allocate(std::size_t bytes, Written /*written*/) {
  return device_.allocate(bytes);
}

}  // namespace zero
