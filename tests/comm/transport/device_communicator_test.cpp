// Collectives between GPUs have the bits of the other transports. device_watch_test.cpp tests failures.
#include "zero/comm/device/device_communicator.h"

#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zero/comm/rank_sum.h"

#include "tests/comm/transport/device_ranks.h"

namespace zero {
namespace {

using Bytes = std::vector<std::byte>;

// Numbers of both signs. A few of them are not finite.
template <typename Make>
Bytes random_elements(std::size_t numel, std::uint32_t seed, Make make) {
  std::mt19937 generator(seed);
  Bytes bytes;
  for (std::size_t i = 0; i < numel; ++i) {
    const auto element = make(generator);
    const auto* const begin = reinterpret_cast<const std::byte*>(&element);
    bytes.insert(bytes.end(), begin, begin + sizeof element);
  }
  return bytes;
}
Bytes random_elements(DType dtype, std::size_t numel, std::uint32_t seed) {
  if (dtype == DType::kFloat32)
    return random_elements(numel, seed, [](std::mt19937& random) {
      return random() % 997 == 0 ? INFINITY : std::uniform_real_distribution<float>(-3, 3)(random);
    });
  return random_elements(numel, seed, [](std::mt19937& random) {
    return static_cast<std::uint16_t>(random() % 997 == 0 ? 0x7f80 : (random() & 0x80ff) | 0x3f00);
  });
}

Bytes copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

struct Memory {
  Memory(Device& device, const Bytes& bytes) : allocation(device.allocate(bytes.size())) {
    if (!bytes.empty()) std::memcpy(allocation.data(), bytes.data(), bytes.size());
  }
  std::span<std::byte> bytes() const { return allocation.bytes(); }
  Allocation allocation;
};

struct Reduced {
  Bytes out;
  std::string squares;
  std::int64_t num_non_finite = 0;
  bool operator==(const Reduced&) const = default;
};

struct SumCase {
  DType dtype = DType::kFloat32, out_dtype = DType::kFloat32;
  bool accumulate = false;
  std::vector<std::int64_t> bounds;  // of the ranks' blocks; empty: 9,000 elements each
};

Reduced reduce_on(Communicator& comm, Device* device, const SumCase& the) {
  const int world = comm.world();
  const auto all = static_cast<std::size_t>(the.bounds.empty() ? 9000 * world : the.bounds.back());
  const CommTag tag{.unit = 3, .blocks = {the.bounds, the.bounds.empty() ? 1 : size_of(the.dtype)}};
  const Bytes in = random_elements(the.dtype, all, 17U + static_cast<std::uint32_t>(comm.rank()));
  const std::size_t numel = tag.blocks.size(comm.rank(), world, in.size()) / size_of(the.dtype);
  const Bytes before = random_elements(the.out_dtype, numel, 5);
  Bytes here = in, out = before;
  std::optional<Memory> far_in, far_out;
  if (device != nullptr) {
    far_in.emplace(*device, in);
    far_out.emplace(*device, before);
  }
  ReduceStats stats;
  comm.reduce_scatter({.in = device != nullptr ? far_in->bytes() : std::span<std::byte>(here),
                       .dtype = the.dtype,
                       .out = device != nullptr ? far_out->bytes() : std::span<std::byte>(out),
                       .out_dtype = the.out_dtype,
                       .accumulate = the.accumulate,
                       .stats = &stats},
                      tag)
      .wait();
  if (device != nullptr) {
    device->join(device->mark(Lane::kUp));
    out = copy_of(far_out->bytes());
  }
  comm.drain();
  return {out, fmt::format("{:a}", stats.sum_squares.value()), stats.num_non_finite};
}

template <typename Element>
Bytes added_by_ring(const std::vector<Bytes>& inputs, int owner, std::size_t numel) {
  const auto world = static_cast<int>(inputs.size());
  const auto element = [&](int rank, std::size_t i) {
    Element value;
    std::memcpy(&value, inputs[static_cast<std::size_t>(rank)].data() + i * sizeof value, sizeof value);
    return to_float(value);
  };
  Bytes sum(numel * sizeof(Element));
  for (std::size_t i = 0; i < numel; ++i) {
    const std::size_t at = static_cast<std::size_t>(owner) * numel + i;
    float value = element((owner + 1) % world, at);
    for (int next = 2; next <= world; ++next)
      value = to_float(rounded_to<Element>(value + element((owner + next) % world, at)));
    const auto rounded = rounded_to<Element>(value);
    std::memcpy(sum.data() + i * sizeof rounded, &rounded, sizeof rounded);
  }
  return sum;
}

// The result of reduce_on() if the fake NCCL adds.
Reduced reduced_by_ring(int world, int rank, const SumCase& the) {
  const auto all = static_cast<std::size_t>(9000 * world);
  std::vector<Bytes> inputs;
  for (int r = 0; r < world; ++r)
    inputs.push_back(random_elements(the.dtype, all, 17U + static_cast<std::uint32_t>(r)));
  const Bytes sum = the.dtype == DType::kFloat32 ? added_by_ring<float>(inputs, rank, 9000)
                                                 : added_by_ring<BFloat16Bits>(inputs, rank, 9000);
  Bytes out = random_elements(the.out_dtype, 9000, 5);
  const std::byte* const in[] = {sum.data()};
  ReduceStats stats;
  sum_ranks({.in = in,
             .dtype = the.dtype,
             .out = out.data(),
             .out_dtype = the.out_dtype,
             .numel = 9000,
             .accumulate = the.accumulate},
            &stats);
  return {out, fmt::format("{:a}", stats.sum_squares.value()), stats.num_non_finite};
}

class BetweenDevices : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(nccl_, nullptr) << "no fake NCCL beside the test"; }
  static void expect_all_well(const std::vector<std::string>& ends) {
    for (const std::string& end : ends) EXPECT_EQ(end, "");
  }
  FakeNccl* nccl_ = fake_nccl();
};

// The staging of a slot has room for 4,096 elements of a block.
TEST_F(BetweenDevices, SumsKeepHostBits) {
  const std::vector<SumCase> cases{{},
                                   {.accumulate = true},
                                   {.dtype = DType::kBFloat16},
                                   {.dtype = DType::kBFloat16, .out_dtype = DType::kBFloat16},
                                   {.dtype = DType::kBFloat16, .accumulate = true}};
  for (const int world : {1, 2, 3, 4}) {
    for (const SumCase& the : cases) {
      expect_all_well(ends_of_device_ranks(
          world,
          [&](DeviceRank& rank) {
            EXPECT_EQ(reduce_on(rank.comm, &rank.gpu, the), reduce_on(rank.world, nullptr, the)) << world;
          },
          std::chrono::seconds(60), {.staging_bytes = 1}));
    }
  }
}

// Library sums add in the library's order.
TEST_F(BetweenDevices, LibrarySumsNeedNoStaging) {
  const std::vector<SumCase> cases{{},
                                   {.accumulate = true},
                                   {.dtype = DType::kBFloat16},
                                   {.dtype = DType::kBFloat16, .out_dtype = DType::kBFloat16},
                                   {.dtype = DType::kBFloat16, .accumulate = true}};
  for (const int world : {1, 2, 3, 4}) {
    for (const SumCase& the : cases) {
      expect_all_well(ends_of_device_ranks(
          world,
          [&](DeviceRank& rank) {
            EXPECT_EQ(reduce_on(rank.comm, &rank.gpu, the), reduced_by_ring(world, rank.world.rank(), the)) << world;
            EXPECT_LE(rank.comm.held_bytes(), 16 << 10) << "only statistics";
            const auto own = static_cast<std::int64_t>(9000 * size_of(the.dtype));
            EXPECT_EQ(rank.comm.traffic().sent_bytes, (world - 1) * own) << "as many bytes as in rank order";
            EXPECT_EQ(rank.comm.traffic().received_bytes, (world - 1) * own);
          },
          std::chrono::seconds(60), {.linked_sums = true}));
    }
  }
}

TEST_F(BetweenDevices, HeldBytesAreKnownBeforehand) {
  const std::vector<DeviceCommunicator::Options> all{
      {}, {.staging_bytes = 1}, {.staging_bytes = 1 << 20, .ranks_of_a_kernel = 2}, {.linked_sums = true}};
  for (const int world : {1, 2, 3}) {
    for (const DeviceCommunicator::Options& options : all) {
      expect_all_well(ends_of_device_ranks(
          world,
          [&](DeviceRank& rank) { EXPECT_EQ(rank.comm.held_bytes(), DeviceCommunicator::bytes_of(world, options)); },
          std::chrono::seconds(60), options));
    }
  }
  EXPECT_EQ(DeviceCommunicator::bytes_of(1, {}), 16 << 10) << "one rank receives nothing";
}

TEST_F(BetweenDevices, SumsOfUnequalBlocksHaveThem) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    expect_all_well(ends_of_device_ranks(3,
                                         [&](DeviceRank& rank) {
                                           const SumCase the{.dtype = dtype, .bounds = {0, 20000, 20000, 20016}};
                                           EXPECT_EQ(reduce_on(rank.comm, &rank.gpu, the),
                                                     reduce_on(rank.world, nullptr, the));
                                         },
                                         std::chrono::seconds(60), {.staging_bytes = 1}));
  }
}

// The ranks exceed the inputs of one kernel.
TEST_F(BetweenDevices, ManyRanksSumsKeepBits) {
  for (const int ranks_of_a_kernel : {1, 2, 3}) {
    for (const bool accumulate : {false, true}) {
      expect_all_well(
          ends_of_device_ranks(5,
                               [&](DeviceRank& rank) {
                                 const SumCase the{.dtype = DType::kBFloat16, .accumulate = accumulate};
                                 EXPECT_EQ(reduce_on(rank.comm, &rank.gpu, the), reduce_on(rank.world, nullptr, the));
                               },
                               std::chrono::seconds(60), {.staging_bytes = 1, .ranks_of_a_kernel = ranks_of_a_kernel}));
    }
  }
}

TEST_F(BetweenDevices, GathersHaveEachRanksBlock) {
  const std::vector<std::int64_t> bounds{0, 500, 500, 1300};
  for (const bool equal : {true, false}) {
    for (const bool in_place : {true, false}) {
      expect_all_well(ends_of_device_ranks(3, [&](DeviceRank& rank) {
        const CommTag tag{.unit = 1, .blocks = equal ? Blocks{} : Blocks{bounds, 1}};
        const Bytes all = random_elements(DType::kBFloat16, 1290 / 2, 3);
        const std::size_t total = equal ? 1290 : 1300;
        Bytes whole = all;
        whole.resize(total);
        const std::size_t begin = tag.blocks.offset(rank.world.rank(), 3, total);
        const std::size_t size = tag.blocks.size(rank.world.rank(), 3, total);
        const Memory out(rank.gpu, Bytes(total));
        const Memory apart(rank.gpu, copy_of(std::span(whole).subspan(begin, size)));
        if (in_place && size > 0) std::memcpy(out.bytes().data() + begin, whole.data() + begin, size);
        rank.comm.all_gather(in_place ? out.bytes().subspan(begin, size) : apart.bytes(), out.bytes(), tag).wait();
        rank.gpu.join(rank.gpu.mark(Lane::kUp));
        EXPECT_EQ(copy_of(out.bytes()), whole);
        EXPECT_EQ(rank.comm.traffic().sent_bytes, static_cast<std::int64_t>(2 * size));
        EXPECT_EQ(rank.comm.traffic().received_bytes, static_cast<std::int64_t>(total - size));
      }));
    }
  }
}

TEST_F(BetweenDevices, ConcurrentWorksEndInWaitOrder) {
  expect_all_well(ends_of_device_ranks(2, [&](DeviceRank& rank) {
    std::vector<Memory> in, out, sums;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      const auto byte = static_cast<std::byte>(10 * i + rank.world.rank());
      in.emplace_back(rank.gpu, Bytes(64, byte));
      out.emplace_back(rank.gpu, Bytes(128));
      sums.emplace_back(rank.gpu, Bytes(32));
      works.push_back(rank.comm.all_gather(in.back().bytes(), out.back().bytes(), {.unit = i}));
      works.push_back(rank.comm.reduce_scatter({.in = in.back().bytes(), .out = sums.back().bytes()}, {.unit = i}));
    }
    for (Work& work : works) work.wait();
    rank.gpu.join(rank.gpu.mark(Lane::kUp));
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(out[static_cast<std::size_t>(i)].bytes()[64], static_cast<std::byte>(10 * i + 1));
  }));
}

// All-to-all, broadcast and messages.
TEST_F(BetweenDevices, OtherCollectivesMoveTheirBytes) {
  expect_all_well(ends_of_device_ranks(3, [&](DeviceRank& rank) {
    const int own = rank.world.rank();
    Bytes mine(30);
    for (int to = 0; to < 3; ++to)
      for (int i = 0; i < 10; ++i) mine[static_cast<std::size_t>(10 * to + i)] = static_cast<std::byte>(16 * own + to);
    const Memory in(rank.gpu, mine), out(rank.gpu, Bytes(30)), told(rank.gpu, Bytes(8, std::byte(own)));
    rank.comm.all_to_all(in.bytes(), out.bytes(), {}).wait();
    rank.comm.broadcast(told.bytes(), 2, {}).wait();
    const Memory message(rank.gpu, Bytes(8, std::byte(40 + own)));
    if (own == 0) rank.comm.send(message.bytes(), 1, {}).wait();
    if (own == 1) rank.comm.receive(message.bytes(), 0, {}).wait();
    rank.gpu.join(rank.gpu.mark(Lane::kUp));
    for (int from = 0; from < 3; ++from)
      EXPECT_EQ(out.bytes()[static_cast<std::size_t>(10 * from)], static_cast<std::byte>(16 * from + own));
    EXPECT_EQ(told.bytes()[7], std::byte(2));
    EXPECT_EQ(message.bytes()[0], std::byte(own == 2 ? 42 : 40));
  }));
}

TEST_F(BetweenDevices, TryCompleteFollowsArrivedBytes) {
  expect_all_well(ends_of_device_ranks(2, [&](DeviceRank& rank) {
    const Memory in(rank.gpu, Bytes(64, std::byte(7))), out(rank.gpu, Bytes(128));
    Work work = rank.comm.all_gather(in.bytes(), out.bytes(), {});
    if (rank.world.rank() == 0) {
      while (!work.try_complete()) std::this_thread::yield();
      EXPECT_TRUE(work.try_complete());
    }
    work.wait();
    rank.gpu.join(rank.gpu.mark(Lane::kUp));
    EXPECT_EQ(out.bytes()[100], std::byte(7));
  }));
}

TEST_F(BetweenDevices, NoCommunicatorIsLeftBehind) {
  expect_all_well(ends_of_device_ranks(2, [](DeviceRank&) {}));
  EXPECT_EQ(nccl_->num_comms, 0);
  EXPECT_EQ(nccl_->num_aborted, 2);
}

}  // namespace
}  // namespace zero
