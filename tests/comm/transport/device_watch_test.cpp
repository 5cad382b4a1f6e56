// Errors of collectives between GPUs that cannot end, and the ranks that they name. No test here may hang.
#include <chrono>
#include <latch>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/comm/transport/device_ranks.h"
#include "tests/support/expect_says.h"

namespace zero {
namespace {

constexpr std::chrono::milliseconds kSoon{500};    // timeout of a rank whose bytes do not arrive
constexpr std::chrono::milliseconds kLater{3000};  // timeout of a wait for a rank; all must be open by then

class DeviceWatch : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(nccl_, nullptr) << "no fake NCCL beside the test"; }
  // No queued work still waits, and no communicator is open.
  void TearDown() override {
    if (nccl_ == nullptr) return;
    EXPECT_EQ(nccl_->num_comms, 0);
    nccl_->reset();
  }
  FakeNccl* nccl_ = fake_nccl();
};

Work gather(DeviceRank& rank, const Allocation& memory, std::size_t bytes = 64, int unit = 3) {
  return rank.comm.all_gather(memory.bytes().first(bytes), memory.bytes().subspan(128, 2 * bytes), {.unit = unit});
}

// A sum that the library computes.
Work sum(DeviceRank& rank, const Allocation& memory) {
  return rank.comm.reduce_scatter({.in = memory.bytes().first(128), .out = memory.bytes().subspan(512, 64)},
                                  {.unit = 5});
}
constexpr const char* kSum = "reduce_scatter #3 (unit 5, 128 bytes) between devices";

TEST_F(DeviceWatch, MissingLibrarySumTimesOut) {
  for (const bool busy : {false, true}) {
    nccl_->reset();
    std::latch both(2);
    const auto ends = ends_of_device_ranks(
        2,
        [&](DeviceRank& rank) {
          const Allocation memory = rank.gpu.allocate(1024);
          rank.world.barrier({}).wait();
          rank.units.limit = kSoon;
          (busy ? nccl_->busy : nccl_->stuck) = true;
          const std::string error = message_of<CommError>([&] { sum(rank, memory).wait(); });
          expect_says(error, {kSum, busy ? "nccl could not begin it within 0.5 s"
                                         : "all ranks have begun it, and nccl has not done it within 0.5 s"});
          join_all(rank.gpu);  // the queued work has ended
          EXPECT_EQ(message_of<CommError>([&] { sum(rank, memory).wait(); }), error);
          both.arrive_and_wait();
        },
        std::chrono::seconds(60), {.linked_sums = true});
    for (const std::string& end : ends) EXPECT_EQ(end, "");
  }
}

// A rank fails, or a rank leaves.
TEST_F(DeviceWatch, FailedLibrarySumNamesCulprit) {
  for (const bool leaves : {false, true}) {
    nccl_->reset();
    const auto ends = ends_of_device_ranks(2,
                                           [&](DeviceRank& rank) {
                                             const Allocation memory = rank.gpu.allocate(1024);
                                             rank.world.barrier({}).wait();
                                             nccl_->stuck = true;
                                             rank.world.barrier({}).wait();
                                             Work work = sum(rank, memory);
                                             if (leaves && rank.world.rank() == 0) throw Error("it leaves");
                                             rank.world.barrier({}).wait();
                                             if (!leaves) nccl_->failing = 0;
                                             work.wait();
                                           },
                                           std::chrono::seconds(60), {.linked_sums = true});
    if (leaves)
      EXPECT_EQ(ends[0], "it leaves");
    else
      expect_says(ends[0], {kSum, "nccl: remote process exited or there was a network error"});
    expect_says(ends[1], {"rank 0"});
  }
}

TEST_F(DeviceWatch, DifferingRanksAreBothNamed) {
  for (const bool other_unit : {true, false}) {
    const auto ends = ends_of_device_ranks(2, [&](DeviceRank& rank) {
      const Allocation memory = rank.gpu.allocate(1024);
      const bool differs = rank.world.rank() == 1;
      gather(rank, memory, differs && !other_unit ? 32 : 64, differs && other_unit ? 4 : 3).wait();
    });
    expect_says(ends[0], {"ranks disagree: rank 0 does all_gather #3 (unit 3, 128 bytes)",
                          other_unit ? "rank 1 does all_gather #3 (unit 4, 128 bytes)" : "(unit 3, 64 bytes)"});
    EXPECT_EQ(ends[1].substr(ends[1].find("ranks disagree")), ends[0].substr(ends[0].find("ranks disagree")));
  }
}

// The error also has the rank's last collective.
TEST_F(DeviceWatch, MissingRankIsNamed) {
  std::latch given_up(1);
  const auto ends = ends_of_device_ranks(
      2,
      [&](DeviceRank& rank) {
        const Allocation memory = rank.gpu.allocate(1024);
        if (rank.world.rank() == 1) {
          given_up.wait();
          throw Error("this is the late one");
        }
        const std::string error = message_of<CommError>([&] { gather(rank, memory).wait(); });
        given_up.count_down();
        throw Error(error);
      },
      kLater);
  expect_says(ends[0],
              {"rank 1: all_gather #3 (unit 3, 128 bytes) between devices", "it is absent after 3 s; it last began"});
  EXPECT_EQ(ends[1], "this is the late one");
}

// The rank leaves while others exchange bytes with it.
TEST_F(DeviceWatch, LeavingRankIsNamed) {
  const auto ends = ends_of_device_ranks(2, [&](DeviceRank& rank) {
    const Allocation memory = rank.gpu.allocate(1024);
    rank.world.barrier({}).wait();
    nccl_->stuck = true;
    rank.world.barrier({}).wait();
    Work work = gather(rank, memory);
    if (rank.world.rank() == 1) throw Error("it leaves");
    work.wait();
  });
  expect_says(ends[0], {"rank 1: "});
  EXPECT_EQ(ends[1], "it leaves");
}

TEST_F(DeviceWatch, MissingBytesTimeOutBlamingNobody) {
  std::latch both(2);  // so no rank leaves, which would be named
  const auto ends = ends_of_device_ranks(2, [&](DeviceRank& rank) {
    const Allocation memory = rank.gpu.allocate(1024);
    rank.world.barrier({}).wait();
    rank.units.limit = kSoon;
    nccl_->stuck = true;
    Work work = gather(rank, memory);
    rank.world.barrier({}).wait();  // all have begun it before the short limit runs
    const std::string error = message_of<CommError>([&] { work.wait(); });
    expect_says(error, {"all_gather #3 (unit 3, 128 bytes) between devices",
                        "all ranks have begun it, and nccl has not done it within 0.5 s"});
    join_all(rank.gpu);  // the queued work has ended
    // The error is the same for later collectives.
    EXPECT_EQ(message_of<CommError>([&] { gather(rank, memory).wait(); }), error);
    both.arrive_and_wait();
  });
  for (const std::string& end : ends) EXPECT_EQ(end, "");
}

// Later collectives also keep the error.
TEST_F(DeviceWatch, LibraryErrorKeepsItsWords) {
  const auto ends = ends_of_device_ranks(2, [&](DeviceRank& rank) {
    const Allocation memory = rank.gpu.allocate(1024);
    rank.world.barrier({}).wait();
    nccl_->stuck = true;  // so the other rank waits until this one leaves
    Work work = gather(rank, memory);
    rank.world.barrier({}).wait();
    nccl_->failing = 0;
    work.wait();
  });
  expect_says(ends[0], {"between devices: nccl: remote process exited or there was a network error"});
  expect_says(ends[1], {"rank 0: "});
}

TEST_F(DeviceWatch, RefusedLibraryCallTimesOut) {
  std::latch both(2);
  const auto ends = ends_of_device_ranks(2, [&](DeviceRank& rank) {
    const Allocation memory = rank.gpu.allocate(1024);
    rank.world.barrier({}).wait();
    rank.units.limit = kSoon;
    nccl_->busy = true;
    expect_says(message_of<CommError>([&] { const Work work = gather(rank, memory); }),
                {"nccl could not begin it within 0.5 s"});
    both.arrive_and_wait();
  });
  for (const std::string& end : ends) EXPECT_EQ(end, "");
}

TEST_F(DeviceWatch, ErrorPathWaitsForNothing) {
  const auto ends = ends_of_device_ranks(2, [&](DeviceRank& rank) {
    const Allocation memory = rank.gpu.allocate(1024);
    rank.world.barrier({}).wait();
    nccl_->stuck = true;
    const Work work = gather(rank, memory);
    throw Error("another error");
  });
  for (const std::string& end : ends) EXPECT_EQ(end, "another error");
}

// ---- before the first collective ------------------------------------------------------------------------------------

// The error of each rank that opens a link, after the kind of the error.
std::vector<std::string> refusals(const std::vector<std::string>& gpus, std::chrono::milliseconds timeout) {
  return ends_of_ranks(
      static_cast<int>(gpus.size()),
      [&](Communicator& run) {
        FakeGpu gpu(gpus[static_cast<std::size_t>(run.rank())]);
        try {
          open_device_link(run, gpu);
        } catch (const ConfigError& error) {
          throw Error(std::string("config: ") + error.what());
        } catch (const CommError& error) {
          throw Error(std::string("comm: ") + error.what());
        }
        throw Error("it opened");
      },
      timeout);
}

// All ranks refuse before they call the library.
TEST_F(DeviceWatch, RefusesTwoRanksOnOneGpu) {
  const auto ends = refusals({"0000:01:00.0", "0000:02:00.0", "0000:02:00.0"}, std::chrono::seconds(60));
  for (const std::string& end : ends)
    expect_says(end, {"config: comm.transport = nccl: ranks 1 and 2 are both on the GPU 0000:02:00.0, and NCCL refuses "
                      "two ranks on one GPU",
                      "start one rank for each GPU", "leave comm.transport out"});
  EXPECT_EQ(nccl_->num_aborted, 0);
}

TEST_F(DeviceWatch, LibraryRefusesUnidentifiedDuplicateGpu) {
  nccl_->duplicate_gpu = true;
  for (const std::string& end : refusals({"", ""}, std::chrono::seconds(60)))
    expect_says(end, {"config: comm.transport = nccl: rank 0: NCCL: invalid usage", "Duplicate GPU detected",
                      "leave comm.transport out"});
}

// The error has both versions.
TEST_F(DeviceWatch, RefusesOldLibraryWithVersions) {
  nccl_->version = 21703;
  for (const std::string& end : refusals({"a", "b"}, std::chrono::seconds(60)))
    expect_says(end, {"config: comm.transport = nccl: rank 0: NCCL 2.17.3 is too old: zero.cpp needs 2.18.0",
                      "nvidia-nccl-cu13"});
  const DeviceLinkHere here = device_link_here();
  EXPECT_FALSE(here.available);
  expect_says(here.why, {"2.17.3 is too old"});
}

TEST_F(DeviceWatch, NewLibraryIsAvailable) {
  EXPECT_TRUE(device_link_here().available);
  expect_says(device_link_here().why, {"libzero_transport_nccl.so"});
}

TEST_F(DeviceWatch, UnconnectedRanksAreReported) {
  nccl_->absent = 1;
  for (const std::string& end : refusals({"a", "b"}, std::chrono::milliseconds(1000)))
    expect_says(end, {"comm: rank 0: opening nccl: NCCL has not connected the ranks within 0.5 s"});
}

TEST_F(DeviceWatch, SingleRankLinkOpens) {
  EXPECT_EQ(refusals({"a"}, std::chrono::seconds(60)).front(), "it opened");
}

}  // namespace
}  // namespace zero
