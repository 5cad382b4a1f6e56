#include "zero/comm/transport/recorded_communicator.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"
#include "zero/comm/board/in_process.h"
#include "zero/comm/collectives.h"
#include "zero/comm/flight/diagnosis.h"
#include "zero/comm/flight/file.h"
#include "zero/comm/group.h"
#include "zero/comm/transport/record_flight.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Body = std::function<void(RecordedCommunicator&)>;

// The error of each rank; "" for none. Ranks are threads.
std::vector<std::string> run_ranks(int world, const Body& body, milliseconds timeout = milliseconds(20000)) {
  auto inner = make_in_process(world, timeout);
  std::vector<std::string> ends(inner.size());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      RecordedCommunicator comm(std::move(inner[rank]), flight_memory(64),
                                {.rank = rank, .world = world, .run = "test"});
      try {
        body(comm);
      } catch (const std::exception& error) {
        ends[rank] = error.what();
      }
    });
  }
  threads.clear();
  return ends;
}

FlightRecord record_of(const RecordedCommunicator& comm) {
  return read_ring(comm.memory()).value();
}

std::vector<std::byte> bytes_of(std::size_t count, int seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 31 * seed);
  return bytes;
}

// Ranks that make the same call must have the same entries, because the diagnosis reports a difference as a mismatch.
TEST(Recorded, UnevenGathersMatchOnEveryRank) {
  run_ranks(3, [](RecordedCommunicator& comm) {
    const std::vector<std::int64_t> bounds{0, 100, 110, 300};
    const auto rank = static_cast<std::size_t>(comm.rank());
    const auto in = bytes_of(static_cast<std::size_t>(bounds[rank + 1] - bounds[rank]), comm.rank());
    std::vector<std::byte> all(300);
    comm.all_gather(in, all, {.unit = 5, .blocks = {bounds, 1}}).wait();
    EXPECT_TRUE(std::ranges::equal(in, std::span(all).subspan(static_cast<std::size_t>(bounds[rank]), in.size())));
    comm.drain();
    const FlightCall call{FlightOperation::kAllGather, 5, 300, -1};
    EXPECT_EQ(record_of(comm).entries.front().call, call);
  });
}

TEST(Recorded, EveryMovementIsOneEntry) {
  const auto ends = run_ranks(3, [](RecordedCommunicator& comm) {
    constexpr std::size_t kBytes = 9000;
    const int rank = comm.rank();
    const auto in = bytes_of(kBytes, rank);
    std::vector<std::byte> all(3 * kBytes), out(3 * kBytes);
    comm.all_gather(in, all, {.unit = 5}).wait();
    for (int r = 0; r < 3; ++r) EXPECT_EQ(std::memcmp(all.data() + r * kBytes, bytes_of(kBytes, r).data(), kBytes), 0);
    comm.all_to_all(all, out, {.unit = 6}).wait();
    for (int r = 0; r < 3; ++r)
      EXPECT_EQ(std::memcmp(out.data() + r * kBytes, bytes_of(kBytes, rank).data(), kBytes), 0);
    comm.drain();
    auto sent = bytes_of(kBytes, rank);
    comm.broadcast(sent, 1, {}).wait();
    EXPECT_EQ(sent, bytes_of(kBytes, 1));
    comm.barrier({}).wait();
    const auto message = bytes_of(100, rank);
    std::vector<std::byte> got(100);
    Work sending = comm.send(message, (rank + 1) % 3, {});
    comm.receive(got, (rank + 2) % 3, {}).wait();
    sending.wait();
    EXPECT_EQ(got, bytes_of(100, (rank + 2) % 3));
    std::vector<float> summed(300, static_cast<float>(rank + 1)), block(100);
    ReduceStats stats;
    comm.reduce_scatter(
            {.in = std::as_bytes(std::span(summed)), .out = std::as_writable_bytes(std::span(block)), .stats = &stats},
            {.unit = 7})
        .wait();
    EXPECT_EQ(block, std::vector<float>(100, 6));
    EXPECT_EQ(stats.sum_squares.value(), 3600);
    comm.drain();

    const FlightRecord record = record_of(comm);
    const std::vector<FlightCall> calls{
        {FlightOperation::kAllGather, 5, kBytes, -1},      {FlightOperation::kAllToAll, 6, 3 * kBytes, -1},
        {FlightOperation::kBroadcast, -1, kBytes, 1},      {FlightOperation::kBarrier, -1, 0, -1},
        {FlightOperation::kSend, -1, 100, (rank + 1) % 3}, {FlightOperation::kReceive, -1, 100, (rank + 2) % 3},
        {FlightOperation::kReduceScatter, 7, 1200, -1},
    };
    ASSERT_EQ(record.entries.size(), calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(record.entries[i].call, calls[i]) << i;
      EXPECT_NE(record.entries[i].ended_ns, 0) << i;
      EXPECT_FALSE(record.entries[i].failed) << i;
    }
    EXPECT_EQ(record.entries.back().collective, 5u);
  });
  EXPECT_EQ(ends, std::vector<std::string>(3));
}

TEST(Recorded, IsWhatItsInnerOneIs) {
  const auto ends = run_ranks(
      2,
      [](RecordedCommunicator& comm) {
        EXPECT_EQ(comm.world(), 2);
        EXPECT_EQ(comm.transport(), "in_process");
        EXPECT_EQ(comm.timeout(), milliseconds(7000));
        Allocation window = comm.allocate(5000, Written::kWhole);
        EXPECT_EQ(window.size(), 5000u);
        std::vector<std::byte> out(10000);
        comm.all_gather(window.bytes(), out, {}).wait();
        comm.drain();
        all_gather_value(comm, 1);
        EXPECT_EQ(comm.traffic().sent_bytes, 5000);
        EXPECT_EQ(comm.traffic().received_bytes, 5000);
        EXPECT_EQ(comm.traffic().control_sent_bytes, 8);
        EXPECT_GE(comm.waited_seconds(), 0);
      },
      milliseconds(7000));
  EXPECT_EQ(ends, std::vector<std::string>(2));
}

// For any order of the waits.
TEST(Recorded, WaitEndsItsEntry) {
  run_ranks(2, [](RecordedCommunicator& comm) {
    std::byte in[2] = {}, out[4] = {};
    Work first = comm.all_gather(std::span(in).first(1), std::span(out).first(2), {.unit = 0});
    Work second = comm.all_gather(std::span(in).subspan(1), std::span(out).subspan(2), {.unit = 1});
    EXPECT_EQ(record_of(comm).entries[0].ended_ns, 0);
    second.wait();
    EXPECT_EQ(record_of(comm).entries[0].ended_ns, 0);
    EXPECT_NE(record_of(comm).entries[1].ended_ns, 0);
    first.wait();
    EXPECT_NE(record_of(comm).entries[0].ended_ns, 0);
    comm.drain();
  });
}

// Waits for all ranks without the communicator. Without this, a failing run would also end ranks that are still in an
// earlier collective.
void all_are_here(std::atomic<int>& come, int world) {
  for (++come; come < world;) std::this_thread::yield();
}

TEST(Recorded, FailedWaitIsWrittenBeforeThrowing) {
  const TemporaryFolder folder;
  std::atomic<int> come{0};
  const auto ends = run_ranks(3, [&](RecordedCommunicator& comm) {
    comm.write_on_failure(folder / "flight");
    comm.barrier({}).wait();
    all_are_here(come, 3);
    if (comm.rank() == 2) return;  // leaves the run
    EXPECT_THROW(comm.barrier({}).wait(), CommError);
    EXPECT_TRUE(
        std::filesystem::exists(folder / "flight" / (comm.rank() == 0 ? "rank-00000.json" : "rank-00001.json")));
    const FlightRecord record = record_of(comm);
    EXPECT_TRUE(record.entries.back().failed);
    EXPECT_NE(record.entries.back().ended_ns, 0);
    EXPECT_TRUE(record.written_by_rank);
    EXPECT_THROW(comm.barrier({}), CommError) << "beginning also fails";
    EXPECT_TRUE(record_of(comm).entries.back().failed);
    EXPECT_EQ(record_of(comm).entries.back().collective, 3u);
  });
  EXPECT_EQ(ends, std::vector<std::string>(3));
  const FlightFolder found = read_flight_folder(folder / "flight");
  EXPECT_TRUE(found.damaged.empty());
  ASSERT_EQ(found.records.size(), 2u);
  for (const FlightRecord& record : found.records) {
    EXPECT_EQ(record.cause.blamed, 2);
    EXPECT_TRUE(says(record.cause.reason, "it left the run"));
  }
  const FlightDiagnosis diagnosis = diagnose(found.records);
  EXPECT_EQ(diagnosis.culprits, std::vector{2}) << diagnosis.summary;
}

TEST(Recorded, BothFilesShowTheDisagreement) {
  const TemporaryFolder folder;
  std::atomic<int> come{0};
  run_ranks(3, [&](RecordedCommunicator& comm) {
    comm.write_on_failure(folder.path());
    std::vector<std::byte> in(64), out(192);
    for (int round = 0; round < 4; ++round) comm.all_gather(in, out, {.unit = round}).wait();
    all_are_here(come, 3);
    if (comm.rank() == 1) comm.all_gather(in, out, {.unit = 9}).wait();  // throws on all
    comm.all_gather(in, out, {.unit = 4}).wait();
  });
  const FlightDiagnosis diagnosis = diagnose(read_flight_folder(folder.path()).records);
  EXPECT_EQ(diagnosis.trouble, FlightTrouble::kDisagreement) << diagnosis.summary;
  EXPECT_EQ(diagnosis.culprits, std::vector{1});
  EXPECT_EQ(diagnosis.collective, 5u);
}

// Entries have the group's name and ranks of the world.
TEST(Recorded, GroupCollectivesShareTheRing) {
  const auto ends = run_ranks(4, [](RecordedCommunicator& comm) {
    const bool odd = comm.rank() % 2 == 1;
    const auto group = open_group(comm, odd ? std::vector{1, 3} : std::vector{0, 2}, odd ? "odd" : "even");
    const std::size_t before = record_of(comm).entries.size();
    comm.barrier({}).wait();
    std::vector<std::byte> data(50);
    group->barrier({.unit = 2}).wait();
    group->broadcast(data, 1, {}).wait();
    group->drain();
    const FlightRecord record = record_of(comm);
    ASSERT_EQ(record.groups, std::vector<std::string>{odd ? "odd (ranks 1, 3)" : "even (ranks 0, 2)"});
    ASSERT_EQ(record.entries.size(), before + 3);
    const FlightEntry &first = record.entries[before + 1], &second = record.entries[before + 2];
    EXPECT_EQ(record.entries[before].group, 0);
    EXPECT_EQ(first.group, 1);
    EXPECT_EQ(first.collective, 1U) << "a group counts for itself";
    EXPECT_EQ(describe(second, record), odd ? "broadcast #2 (from rank 3, 50 bytes) of group odd (ranks 1, 3)"
                                            : "broadcast #2 (from rank 2, 50 bytes) of group even (ranks 0, 2)");
    EXPECT_NE(second.ended_ns, 0);
  });
  EXPECT_EQ(ends, std::vector<std::string>(4));
}

TEST(Recorded, SurplusGroupsWorkUnrecorded) {
  const auto ends = run_ranks(2, [](RecordedCommunicator& comm) {
    for (int i = 0; i < 40; ++i) open_group(comm, {0, 1}, "pair")->barrier({.unit = i}).wait();
    EXPECT_EQ(record_of(comm).groups.size(), 31U);
  });
  EXPECT_EQ(ends, std::vector<std::string>(2));
}

TEST(Recorded, FindsTheRankBehindGroupWaits) {
  const TemporaryFolder folder;
  // Rank 0 waits for 1 in one group, 1 for 2 in another, and 2 for 3 in a third. Rank 3 never arrives.
  std::atomic<int> come{0};
  run_ranks(4, [&](RecordedCommunicator& comm) {
    comm.write_on_failure(folder.path());
    std::vector<std::unique_ptr<Communicator>> pairs;
    for (int first = 0; first < 3; ++first) {
      const bool mine = comm.rank() == first || comm.rank() == first + 1;
      pairs.push_back(open_group(comm, mine ? std::vector{first, first + 1} : std::vector<int>{}, "pair"));
    }
    all_are_here(come, 4);
    if (comm.rank() < 3) pairs[comm.rank()]->barrier({}).wait();
    comm.write({.reason = "ended", .blamed = -1});
  });
  const FlightDiagnosis found = diagnose(read_flight_folder(folder.path()).records);
  EXPECT_EQ(found.culprits, std::vector{3}) << found.summary;
  EXPECT_TRUE(says(found.summary, "in group pair (ranks 2, 3)")) << found.summary;
}

TEST(Recorded, WriteFailureKeepsTheError) {
  const TemporaryFolder folder;
  folder.write("file", "");
  const auto ends = run_ranks(2, [&](RecordedCommunicator& comm) {
    comm.write_on_failure(folder / "file" / "flight");
    if (comm.rank() == 0) comm.barrier({}).wait();
  });
  EXPECT_TRUE(says(ends[0], "it left the run"));
}

TEST(Recorded, WithoutAFolderNothingIsWritten) {
  run_ranks(2, [&](RecordedCommunicator& comm) {
    if (comm.rank() == 1) return;
    EXPECT_THROW(comm.barrier({}).wait(), CommError);
    EXPECT_FALSE(record_of(comm).written_by_rank);
    comm.write({.reason = "now"});
    EXPECT_FALSE(record_of(comm).written_by_rank);
  });
}

TEST(Recorded, TheFirstCauseIsKept) {
  const TemporaryFolder folder;
  run_ranks(1, [&](RecordedCommunicator& comm) {
    comm.write_on_failure(folder.path());
    comm.barrier({}).wait();
    comm.write({.reason = "the disk is full", .blamed = 0});
    comm.write({.reason = "a consequence"});
  });
  const auto records = read_flight_folder(folder.path()).records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].cause.reason, "the disk is full");
}

// A transport that does nothing and counts nothing.
class DoneAtOnce final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  std::string_view transport() const override { return "none"; }
  Work all_gather(std::span<const std::byte>, std::span<std::byte>, CommTag) override { return {}; }
  Work all_to_all(std::span<const std::byte>, std::span<std::byte>, CommTag) override { return {}; }
  Work broadcast(std::span<std::byte>, int, CommTag) override { return {}; }
  Work send(std::span<const std::byte>, int, CommTag) override { return {}; }
  Work receive(std::span<std::byte>, int, CommTag) override { return {}; }
  Work barrier(CommTag) override { return {}; }
  Traffic traffic() const override { return {}; }
  double waited_seconds() const override { return 0; }
  milliseconds timeout() const override { return {}; }
};

TEST(Recorded, ImmediateWorkEndsAtTheCall) {
  RecordedCommunicator comm(std::make_unique<DoneAtOnce>(), flight_memory(4), {});
  EXPECT_TRUE(comm.barrier({}).finished());
  EXPECT_NE(record_of(comm).entries.back().ended_ns, 0);
}

// The ring notes the loss even without a folder for records.
TEST(Recorded, LostPeerIsNotedInRing) {
  std::vector<std::optional<FlightLoss>> lost(2);
  run_ranks(2, [&](RecordedCommunicator& comm) {
    if (comm.rank() == 1) return;  // leaves the run
    EXPECT_THROW(comm.barrier({}).wait(), CommError);
    lost[0] = record_of(comm).lost;
  });
  EXPECT_EQ(lost[0], (FlightLoss{.rank = 1, .left = true}));
}

TEST(Recorded, OnlyTheRingNotesAStep) {
  DoneAtOnce plain;
  plain.note_step(7);
  RecordedCommunicator comm(std::make_unique<DoneAtOnce>(), flight_memory(4), {});
  EXPECT_FALSE(record_of(comm).step);
  static_cast<Communicator&>(comm).note_step(7);
  EXPECT_EQ(record_of(comm).step, 7);
  EXPECT_TRUE(record_of(comm).entries.empty());
}

GetEnvironment variables(std::vector<std::pair<std::string, std::string>> set) {
  return [set = std::move(set)](const char* name) -> const char* {
    for (const auto& [key, value] : set)
      if (key == name) return value.c_str();
    return nullptr;
  };
}

TEST(FlightSettings, CapacityIsTorchsVariableReadStrictly) {
  EXPECT_EQ(flight_capacity(variables({})), 1024u);
  EXPECT_EQ(flight_capacity(variables({{"TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"}})), 2000u);
  for (const char* text : {"", "-1", "2k", "1e3", "65537", "99999999999999999999"}) {
    EXPECT_TRUE(says(message_of<ConfigError>([&] {
                       flight_capacity(variables({{"TORCH_NCCL_TRACE_BUFFER_SIZE", text}}));
                     }),
                     "TORCH_NCCL_TRACE_BUFFER_SIZE"))
        << text;
  }
}

// One rank, or a capacity of zero, records nothing.
TEST(FlightSettings, RecordOnlySeveralRanksWithCapacity) {
  auto one = make_in_process(1, milliseconds(1000));
  EXPECT_EQ(record_flight(one[0], "run", variables({})), nullptr);
  EXPECT_NE(one[0], nullptr);
  auto two = make_in_process(2, milliseconds(1000));
  EXPECT_EQ(record_flight(two[0], "run", variables({{"TORCH_NCCL_TRACE_BUFFER_SIZE", "0"}})), nullptr);
  EXPECT_NE(two[0], nullptr);
}

TEST(FlightSettings, ARecordSaysWhoseItIs) {
  const TemporaryFolder folder;
  auto two = make_in_process(2, milliseconds(1000));
  const auto recorded = record_flight(
      two[1], "run-5", variables({{"ZERO_FLIGHT_DIR", folder.path()}, {"TORCHELASTIC_RESTART_COUNT", "3"}}));
  ASSERT_NE(recorded, nullptr);
  recorded->write({});
  const auto records = read_flight_folder(folder.path()).records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].identity.rank, 1);
  EXPECT_EQ(records[0].identity.world, 2);
  EXPECT_EQ(records[0].identity.run, "run-5");
  EXPECT_EQ(records[0].identity.restart, 3);
  EXPECT_EQ(records[0].identity.process, getpid());
}

}  // namespace
}  // namespace zero
