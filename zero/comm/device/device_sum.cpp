// A sum over ranks on their devices. Blocks arrive in tiles, in one of two slots of staging in turn, and are summed in
// rank order; or the link sums them.
#include <algorithm>
#include <array>

#include "zero/base/error/check.h"
#include "zero/comm/device/device_handshake.h"

namespace zero {
namespace {

constexpr std::size_t kMostSums = 64;      // sums in flight that have statistics
constexpr std::size_t kStatsStride = 256;  // bytes of a sum's statistics
static_assert(sizeof(StatsLimbs) <= kStatsStride);

DeviceLink::Element element_of(DType dtype) {
  if (dtype == DType::kFloat32) return DeviceLink::Element::kFloat32;
  return dtype == DType::kBFloat16 ? DeviceLink::Element::kBFloat16 : DeviceLink::Element::kFloat16;
}

// Returns the bytes of one of the two slots.
std::int64_t slot_bytes(int world, std::int64_t wanted) {
  const std::int64_t others = std::max(world - 1, 1);
  const std::int64_t least = others * kStatsBlock * static_cast<std::int64_t>(sizeof(float));
  return std::max((wanted / 2 + 255) / 256 * 256, least);
}

}  // namespace

struct DeviceCommunicator::Sum {
  const ReduceScatter& request;
  const Blocks& blocks;
  const Signature& what;
  int world;
  std::int64_t tile = 0;  // elements of a block in a tile
  StatsLimbs* stats = nullptr;

  std::int64_t width() const { return static_cast<std::int64_t>(size_of(request.dtype)); }
  std::int64_t begin(int rank) const {
    return static_cast<std::int64_t>(blocks.offset(rank, world, request.in.size())) / width();
  }
  std::int64_t numel(int rank) const {
    return static_cast<std::int64_t>(blocks.size(rank, world, request.in.size())) / width();
  }
  // Returns the part of a rank's block in the tile that begins at `first`.
  std::span<const std::byte> part(int rank, std::int64_t first) const {
    const std::int64_t elements = std::clamp<std::int64_t>(numel(rank) - first, 0, tile);
    if (elements == 0) return {};
    return request.in.subspan(static_cast<std::size_t>((begin(rank) + first) * width()),
                              static_cast<std::size_t>(elements * width()));
  }
};

std::int64_t DeviceCommunicator::staging_of(int world, const Options& options) {
  return options.linked_sums || world == 1 ? 0 : 2 * slot_bytes(world, options.staging_bytes);
}

// Returns the bytes of a partial sum of the largest tile.
std::int64_t DeviceCommunicator::partial_of(int world, const Options& options) {
  if (world <= options.ranks_of_a_kernel) return 0;
  const auto others = static_cast<std::int64_t>(size_of(DType::kBFloat16)) * (world - 1);
  return staging_of(world, options) / 2 / others * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t DeviceCommunicator::bytes_of(int world, const Options& options) {
  return staging_of(world, options) + partial_of(world, options) + static_cast<std::int64_t>(kMostSums * kStatsStride);
}

std::int64_t DeviceCommunicator::held_bytes() const {
  return static_cast<std::int64_t>(staging_.size() + partial_.size() + stats_.size());
}

void DeviceCommunicator::prepare_sums(const Options& options) {
  if (link_ != nullptr) partial_ = device_.allocate(static_cast<std::size_t>(partial_of(world(), options)));
  stats_ = device_.allocate(kMostSums * kStatsStride);
  stats_down_ = device_.allocate_pinned(kMostSums * kStatsStride);
  stats_taken_.assign(kMostSums, false);
}

StatsLimbs* DeviceCommunicator::stats_at(std::size_t number, const Allocation& memory) const {
  return reinterpret_cast<StatsLimbs*>(memory.data() + number * kStatsStride);
}

std::size_t DeviceCommunicator::take_stats() {
  const auto free = std::ranges::find(stats_taken_, false);
  ZERO_CHECK(free != stats_taken_.end(), "more than {} sums are under way", kMostSums);
  *free = true;
  return static_cast<std::size_t>(free - stats_taken_.begin());
}

void DeviceCommunicator::Handshake::take_stats(DeviceCommunicator& comm) const {
  if (stats == nullptr) return;
  *stats = {};
  if (!stats_slot) return;
  const std::span<const StatsLimbs> down(comm.stats_at(*stats_slot, comm.stats_down_), 1);
  const std::array accesses{reads(down)};
  comm.device_.host_touches(accesses, "the statistics of a sum");
  down.front().add_to(*stats);
}

Work DeviceCommunicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  request.check(world(), rank(), tag.blocks);
  ZERO_CHECK(request.onto.empty(), "a sum on a device begins with the first rank's");
  ZERO_CHECK(request.merges.empty(), "a device sums in rank order");
  ZERO_CHECK(!linked_sums_ || tag.blocks.equal(), "{} sums equal blocks", transport());
  auto handshake = shake_hands(Operation::kReduceScatter, tag, request.in.size());
  Sum sum{.request = request, .blocks = tag.blocks, .what = handshake->own, .world = world()};
  follow(device_, Lane::kReduce, Lane::kUp);      // after the users of the output
  follow(device_, Lane::kGather, Lane::kReduce);  // after the writers of the input
  handshake->stats = request.stats;
  if (request.stats != nullptr && sum.numel(rank()) > 0) {
    handshake->stats_slot = take_stats();
    sum.stats = stats_at(*handshake->stats_slot, stats_);
    device_.fill(Lane::kReduce, std::as_writable_bytes(std::span(sum.stats, 1)), std::byte{0});
  }
  linked_sums_ ? sum_by_link(sum) : sum_in_tiles(sum);
  if (handshake->stats_slot)
    device_.copy(Lane::kReduce, std::as_writable_bytes(std::span(stats_at(*handshake->stats_slot, stats_down_), 1)),
                 std::as_bytes(std::span(sum.stats, 1)));
  const auto own = static_cast<std::size_t>(sum.numel(rank()) * sum.width());
  count(request.in.size() - own, own * static_cast<std::size_t>(world() - 1), tag);
  return queued(std::move(handshake), Lane::kReduce);
}

void DeviceCommunicator::sum_in_tiles(const Sum& whole) {
  Sum sum = whole;
  const std::size_t slot = staging_.size() / 2;
  const std::int64_t others = std::max(world() - 1, 1);
  std::int64_t most = 0;
  for (int r = 0; r < world(); ++r) most = std::max(most, sum.numel(r));
  sum.tile = world() == 1 ? most : static_cast<std::int64_t>(slot) / (others * sum.width()) / kStatsBlock * kStatsBlock;
  for (std::int64_t first = 0; first < most; first += sum.tile) {
    const std::size_t number = next_slot_++ % slot_free_.size();
    std::byte* const received = staging_.data() + number * slot;
    device_.wait(Lane::kGather, slot_free_[number]);
    receive_tile(sum, first, received);
    follow(device_, Lane::kReduce, Lane::kGather);
    sum_tile(sum, first, received);
    slot_free_[number] = device_.mark(Lane::kReduce);
  }
}

// The link sums into this rank's block of the input; the kernel then sums only this one term.
void DeviceCommunicator::sum_by_link(const Sum& whole) {
  const ReduceScatter& request = whole.request;
  Sum own = whole;
  own.tile = whole.numel(rank());
  if (own.tile == 0) return;  // blocks are equal, so all ranks' are empty
  const std::span<const std::byte> part = own.part(rank(), 0);
  device_.touches(Lane::kGather, std::array{reads(request.in), changes(part)}, "reduce_scatter between devices");
  settle(
      link_->reduce_scatter(device_.native_queue(Lane::kGather), request.in.data(), const_cast<std::byte*>(part.data()),
                            static_cast<std::size_t>(own.tile), element_of(request.dtype)),
      whole.what);
  follow(device_, Lane::kReduce, Lane::kGather);
  RankSumArguments arguments{.num_in = 1,
                             .dtype = request.dtype,
                             .out_dtype = request.out_dtype,
                             .accumulate = request.accumulate,
                             .out = request.out.data(),
                             .numel = own.tile,
                             .stats = whole.stats};
  arguments.in[0] = part.data();
  std::vector<Access> accesses{reads(part), request.accumulate ? changes(request.out) : writes(request.out)};
  if (whole.stats != nullptr) accesses.push_back(changes(std::span(whole.stats, 1)));
  device_.run(Lane::kReduce, {kRankSum, std::as_bytes(std::span(&arguments, 1)), accesses});
}

// Receives the other ranks' parts one after the other, in rank order.
void DeviceCommunicator::receive_tile(const Sum& sum, std::int64_t first, std::byte* slot) {
  std::vector<DeviceLink::Sent> sent;
  std::vector<DeviceLink::Received> received;
  std::vector<Access> accesses;
  const std::size_t own = sum.part(rank(), first).size();
  for (int peer = 0; peer < world(); ++peer) {
    if (peer == rank()) continue;
    if (const auto theirs = sum.part(peer, first); !theirs.empty()) {
      sent.push_back({peer, theirs.data(), theirs.size()});
      accesses.push_back(reads(theirs));
    }
    if (own > 0) received.push_back({peer, slot + received.size() * own, own});
  }
  if (!received.empty()) accesses.push_back(writes(std::span(slot, received.size() * own)));
  exchange(sent, received, accesses, sum.what);
}

void DeviceCommunicator::sum_tile(const Sum& sum, std::int64_t first, const std::byte* slot) {
  const ReduceScatter& request = sum.request;
  const std::span<const std::byte> own = sum.part(rank(), first);
  if (own.empty()) return;
  const std::int64_t numel = static_cast<std::int64_t>(own.size()) / sum.width();
  const std::span<std::byte> out(request.out.data() + first * static_cast<std::int64_t>(size_of(request.out_dtype)),
                                 static_cast<std::size_t>(numel) * size_of(request.out_dtype));
  const auto part_of = [&](int r) {
    return r == rank() ? own.data() : slot + static_cast<std::size_t>(r < rank() ? r : r - 1) * own.size();
  };
  for (int begin = 0; begin < world(); begin += ranks_of_a_kernel_) {
    const int end = std::min(begin + ranks_of_a_kernel_, world());
    const bool last = end == world();
    auto* const partial = reinterpret_cast<float*>(partial_.data());
    RankSumArguments arguments{.num_in = end - begin,
                               .dtype = request.dtype,
                               .out_dtype = last ? request.out_dtype : DType::kFloat32,
                               .accumulate = last && request.accumulate,
                               .out = last ? out.data() : partial_.data(),
                               .numel = numel,
                               .onto = begin > 0 ? partial : nullptr,
                               .stats = last ? sum.stats : nullptr};
    std::vector<Access> accesses;
    for (int r = begin; r < end; ++r) {
      const std::span<const std::byte> part(part_of(r), own.size());
      arguments.in[static_cast<std::size_t>(r - begin)] = part.data();
      accesses.push_back(reads(part));
    }
    if (begin > 0 || !last)
      accesses.push_back(changes(partial_.bytes().first(static_cast<std::size_t>(numel) * sizeof(float))));
    if (last) accesses.push_back(request.accumulate ? changes(out) : writes(out));
    if (arguments.stats != nullptr) accesses.push_back(changes(std::span(arguments.stats, 1)));
    device_.run(Lane::kReduce, {kRankSum, std::as_bytes(std::span(&arguments, 1)), accesses});
  }
}

}  // namespace zero
