// CodedCommunicator over every transport: the same bits and bytes as threads of one process.
#include "zero/comm/code/coded_communicator.h"

#include <thread>

#include "zero/comm/board/in_process.h"
#include "zero/comm/group.h"

#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class CodedUnits : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(CodedUnits);

struct CodedResult {
  std::vector<std::byte> sum, whole;
  double sum_squares = 0;
  std::int64_t sent = 0;
  bool operator==(const CodedResult&) const = default;
};

// Runs two sums of several tiles at the same time, and a gather of the second sum.
CodedResult coded_result(Communicator& comm, WireCodec codec, DType dtype, std::size_t numel) {
  CodedCommunicator coded(comm, {.gather = codec, .reduce = codec}, {dtype, dtype},
                          {.largest_numel = 0, .contributor = comm.rank()});
  coded.begin_step(3);
  const auto world = static_cast<std::size_t>(comm.world());
  const auto in = pattern_values(numel * world, dtype, comm.rank());
  const std::int64_t before = comm.traffic().sent_bytes;
  CodedResult result{std::vector<std::byte>(numel * 4), std::vector<std::byte>(numel * world * size_of(dtype))};
  std::vector<std::byte> other(numel * size_of(dtype));
  ReduceStats stats;
  Work first = coded.reduce_scatter({.in = in, .dtype = dtype, .out = result.sum, .stats = &stats}, {.unit = 0});
  Work second = coded.reduce_scatter({.in = in, .dtype = dtype, .out = other, .out_dtype = dtype}, {.unit = 1});
  first.wait();
  second.wait();
  coded.all_gather(other, result.whole, {.unit = 1}).wait();
  coded.drain();
  result.sum_squares = stats.sum_squares.value();
  result.sent = comm.traffic().sent_bytes - before;
  comm.barrier({.control = true}).wait();
  return result;
}

std::vector<CodedResult> among_threads(int world, WireCodec codec, DType dtype, std::size_t numel) {
  auto comms = make_in_process(world, std::chrono::seconds(60));
  std::vector<CodedResult> results(comms.size());
  {
    std::vector<std::jthread> threads;
    for (auto& comm : comms) {
      threads.emplace_back([&, &comm = *comm] {
        results[static_cast<std::size_t>(comm.rank())] = coded_result(comm, codec, dtype, numel);
      });
    }
  }
  return results;
}

TEST_P(CodedUnits, EveryTransportKeepsBitsAndBytes) {
  expect_world(world(), [](Communicator& comm) {
    for (const WireCodec codec : {WireCodec::kInt8, WireCodec::kInt4}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        for (const std::size_t numel : {1, 255, 9001}) {
          const CodedResult seen = coded_result(comm, codec, dtype, numel);
          const auto expected = among_threads(comm.world(), codec, dtype, numel);
          EXPECT_TRUE(seen == expected[static_cast<std::size_t>(comm.rank())])
              << name_of(codec) << ", " << name_of(dtype) << ", " << numel << " elements per rank";
          const std::int64_t bytes = wire_bytes(codec, static_cast<std::int64_t>(numel), dtype);
          EXPECT_EQ(seen.sent, 3 * (comm.world() - 1) * bytes);
        }
      }
    }
  });
}

}  // namespace
}  // namespace zero
