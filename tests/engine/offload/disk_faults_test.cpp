// A disk with states fails while a model trains, at each request of a run, in every way. The step throws an error that
// names the bytes, the path and the cause. No rank gets a wrong result.
#include <atomic>
#include <filesystem>
#include <iostream>

#include <gtest/gtest.h>

#include "zero/memory/io/thread_queue.h"

#include "tests/engine/faulty_disk.h"
#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using Kind = DiskFault::Kind;

constexpr std::array kKinds{Kind::kError, Kind::kFull, Kind::kEndsEarly, Kind::kHangs, Kind::kRefused, Kind::kBroken};
constexpr std::chrono::milliseconds kNoLimit = std::chrono::seconds(60);
constexpr std::chrono::milliseconds kShortLimit(4);
constexpr std::int64_t kReserve = std::int64_t{1} << 20;
constexpr MemoryBudget kLeast{MemoryBudget::Kind::kMin};  // one tile at a time, nothing ahead
constexpr StateFractions kAllOnDisk{.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};

// The values of one rank after each of its steps, and its error.
struct RankRun {
  std::vector<double> norms;
  std::vector<double> checksums;  // of the weights that its model read
  std::vector<std::uint32_t> weights;
  std::int64_t replans = 0;
  std::string error;  // of the disk
};

// The last rank's disk has the seam.
struct Outcome {
  std::vector<RankRun> ranks;
  std::vector<std::string> ends;
};

struct Case {
  int world = 1;
  std::vector<ParamSpec> specs;
  AttachOptions options;
  int steps = 3;
  std::function<std::int64_t(int)> free_bytes{};  // by step; states move when it changes
  TierRates rates{};
};

std::string in_words(const Case& c) {
  return fmt::format("{} ranks, stage {}, {}, {}", c.world, c.options.stage, name_of(c.specs[0].dtype),
                     c.options.offload.host_memory.kind == MemoryBudget::Kind::kMin ? "one tile" : "several tiles");
}

// After its disk failed, an engine throws the same error from every call.
void expect_no_way_on(ScriptedModel& model, const std::string& error) {
  RankEngine& engine = model.engine();
  const std::vector<std::byte> bytes(4096);
  const std::vector<std::function<void()>> calls{
      [&] { engine.step(0.01); },
      [&] { (void)engine.use(0, Use::kForward); },
      [&] { (void)engine.use(0, Use::kUntraced); },
      [&] { engine.add_gradient(0, bytes.data()); },
      [&] { engine.states().load(0, bytes.data(), DType::kFloat32); },
      [&] { engine.states().read_full_precision(0, [](std::span<const float>) {}); },
      [&] { engine.states().compare_replicas(); },
      [&] { engine.states().pause(); },
      [&] { engine.finish(); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(message_of<IoError>(calls[i]), error) << "call " << i;
}

// `limit` is the timeout of a request on the disk with the seam.
Outcome train(const Case& c, const std::string& folder, const DiskSeam* seam,
              std::chrono::milliseconds limit = kNoLimit) {
  Outcome run;
  run.ranks.resize(static_cast<std::size_t>(c.world));
  run.ends = ends_of_ranks(c.world, [&](Communicator& comm) {
    RankRun& rank = run.ranks[static_cast<std::size_t>(comm.rank())];
    AttachOptions options = c.options;
    if (!folder.empty()) options.offload.disk = {folder};
    FaultyDisk healthy;
    const bool last = comm.rank() == c.world - 1;
    int step = 0;
    EngineHost host{.local_world = c.free_bytes ? c.world : 1,
                    .rates = c.rates,
                    .seams = {.disk_seam = last && seam != nullptr ? seam : &healthy.seam}};
    if (c.free_bytes) {
      options.offload.monitor = {.reserve_bytes = kReserve, .period = std::chrono::milliseconds(0)};
      host.seams.read_memory = [&] { return MemoryReading{.free_bytes = c.free_bytes(step)}; };
    }
    options.offload.disk_timeout = last ? limit : kNoLimit;
    try {
      ScriptedModel model(comm, c.specs, options, host);
      try {
        for (; step < c.steps; ++step) {
          rank.norms.push_back(model.train(step, options.accumulate).grad_norm);
          rank.checksums.push_back(model.checksum());
        }
        rank.weights = model.weight_bits();
        rank.replans = model.engine().report().replans;
      } catch (const IoError& error) {
        expect_no_way_on(model, error.what());
        throw;
      }
    } catch (const IoError& error) {
      rank.error = error.what();
      throw;
    }
  });
  return run;
}

template <typename Value>
bool begins_with(const std::vector<Value>& whole, const std::vector<Value>& part) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

void expect_an_honest_end(const Case& c, const Outcome& run, const Outcome& healthy, const std::string& said) {
  for (int rank = 0; rank < c.world; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    EXPECT_TRUE(begins_with(healthy.ranks[index].norms, run.ranks[index].norms)) << "rank " << rank;
    EXPECT_TRUE(begins_with(healthy.ranks[index].checksums, run.ranks[index].checksums)) << "rank " << rank;
    EXPECT_TRUE(run.ranks[index].weights.empty()) << "rank " << rank;
    EXPECT_EQ(run.ranks[index].error.empty(), rank < c.world - 1);
    // The other ranks name the rank that left, long before their own timeout.
    const bool told =
        rank == c.world - 1 ? says(run.ends[index], said) : says(run.ends[index], fmt::format("rank {}", c.world - 1));
    EXPECT_TRUE(told) << "rank " << rank << ": " << run.ends[index];
    EXPECT_EQ(run.ends[index].find("no answer for 60"), std::string::npos) << run.ends[index];
  }
}

class DiskFaults : public testing::Test {
 protected:
  void TearDown() override {
    if (num_runs_ > 0) std::cout << num_runs_ << " runs with a fault\n";
  }
  std::string folder() const { return folder_.path().string(); }

  // In the full tier, one request in `stride` fails, each time in `num_kinds` ways. All cases together use all kinds.
  void fail_everywhere(const Case& c, std::size_t num_kinds, int stride = 1) {
    SCOPED_TRACE(in_words(c));
    Case on_device = c;
    on_device.options.offload = {};
    on_device.free_bytes = {};
    const Outcome resident = train(on_device, "", nullptr);
    FaultyDisk counted;
    const Outcome healthy = train(c, folder(), &counted.seam);
    const auto last = static_cast<std::size_t>(c.world - 1);
    ASSERT_EQ(healthy.ends, std::vector<std::string>(last + 1)) << "without a fault";
    ASSERT_EQ(healthy.ranks[last].weights, resident.ranks[last].weights);
    ASSERT_EQ(healthy.ranks[last].checksums, resident.ranks[last].checksums);
    ASSERT_GT(counted.num_requests(), 20);
    ASSERT_EQ(healthy.ranks[last].replans >= 2, c.free_bytes != nullptr);
    if (!in_full_tier()) stride *= 11;
    if (built::kSanitized) stride *= 4;  // builds without sanitizers are faster and try more requests
    for (int at = 0; at < counted.num_requests(); at += stride) {
      for (std::size_t i = 0; i < num_kinds; ++i) {
        const Kind kind = kKinds[next_kind_++ % kKinds.size()];
        SCOPED_TRACE(fmt::format("{} at request {} of {}", name_of(kind), at, counted.num_requests()));
        FaultyDisk disk({kind, at});
        const Outcome run = train(c, folder(), &disk.seam, kind == Kind::kHangs ? kShortLimit : kNoLimit);
        ASSERT_TRUE(disk.failed());
        const bool of_unit = kind != Kind::kBroken;
        const std::string begin = fmt::format("rank {}: {}", last, of_unit ? "unit " : folder());
        EXPECT_TRUE(run.ends[last].starts_with(begin)) << run.ends[last];
        EXPECT_TRUE(says(run.ends[last], folder() + ": "));
        expect_an_honest_end(c, run, healthy, disk.what_is_said());
        EXPECT_TRUE(std::filesystem::is_empty(folder()));
        ++num_runs_;
        if (HasFailure()) return;
      }
    }
    ++next_kind_;  // the next case begins with another kind
  }

  TemporaryFolder folder_;
  std::size_t next_kind_ = 0;
  int num_runs_ = 0;
};
using DiskFaultsSlow = DiskFaults;

// The run ends, whichever request fails.
TEST_F(DiskFaultsSlow, NeverGiveAWrongResult) {
  for (const int world : {1, 2}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const MemoryBudget& host : {kLeast, MemoryBudget{}}) {
        const AttachOptions options{.stage = 3, .clip = 1.5, .offload = {.fractions = kAllOnDisk, .host_memory = host}};
        fail_everywhere({world, small_specs(dtype), options}, 2);
      }
    }
  }
}

TEST_F(DiskFaultsSlow, EndRunsOfAnyStage) {
  const StateFractions gradients{.gradient = {.disk = 1}, .optimizer = {.host = 0.5, .disk = 0.5}};
  const StateFractions moments{.optimizer = {.disk = 1}};
  fail_everywhere({2, small_specs(), {.stage = 2, .accumulate = 2, .offload = {.fractions = gradients}}}, 1);
  fail_everywhere({2, small_specs(DType::kBFloat16), {.stage = 1, .offload = {.fractions = moments}}}, 1);
  fail_everywhere({2, small_specs(), {.stage = 0, .offload = {.fractions = moments}}}, 1);
}

TEST_F(DiskFaultsSlow, EndDelayedRuns) {
  AttachOptions options{.stage = 3, .delayed_update = true, .exact_steps = 1, .offload = {.fractions = kAllOnDisk}};
  fail_everywhere({2, small_specs(), options}, 1);
}

// When one tile fails, several tiles of the unit are in transfer.
TEST_F(DiskFaultsSlow, EndRunsWithManyTiles) {
  const std::vector<ParamSpec> large{{.name = "h.0.w", .shape = {700, 900}}, {.name = "h.1.w", .shape = {9}}};
  fail_everywhere({1, large, {.stage = 3, .offload = {.fractions = kAllOnDisk}}}, 1, 3);
}

// Memory is short after the first step, and then free again. States go to the disk, are used there, and return.
TEST_F(DiskFaultsSlow, EndRunsWhileStatesMove) {
  const auto free_bytes = [](int step) { return step == 1 ? 0 : 20 * kReserve; };
  for (const int world : {1, 2}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const TierRates rates{.requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9};
      const AttachOptions options{.stage = 3};
      fail_everywhere({world, small_specs(dtype), options, 12, free_bytes, rates}, 1, world == 1 ? 1 : 4);
    }
  }
}

TEST_F(DiskFaultsSlow, RecoverableOnesHaveNoEffect) {
  for (const int world : {1, 2}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const Case c{world, small_specs(dtype), {.stage = 3, .offload = {.fractions = kAllOnDisk}}};
      const Outcome healthy = train(c, folder(), nullptr);
      FaultyDisk disk({Kind::kUnsteady});
      const Outcome run = train(c, folder(), &disk.seam);
      EXPECT_GT(disk.num_unsteady(), 200);
      EXPECT_EQ(run.ends, healthy.ends);
      for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
        EXPECT_EQ(run.ranks[rank].weights, healthy.ranks[rank].weights);
        EXPECT_EQ(run.ranks[rank].checksums, healthy.ranks[rank].checksums);
        EXPECT_EQ(run.ranks[rank].norms, healthy.ranks[rank].norms);
        EXPECT_FALSE(run.ranks[rank].weights.empty());
      }
    }
  }
}

// The same requests fail in pread() and pwrite() of real files.
TEST_F(DiskFaultsSlow, KernelCallFailuresEndRuns) {
  struct FailingAt : FileCalls {
    int call, result;
    mutable std::atomic<int> num_calls = 0;
    FailingAt(int call, int result) : call(call), result(result) {}
    ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const override {
      return num_calls++ == call ? result : FileCalls::read(fd, into, offset);
    }
    ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const override {
      return num_calls++ == call ? result : FileCalls::write(fd, from, offset);
    }
  };
  const Case c{2, small_specs(), {.stage = 3, .offload = {.fractions = kAllOnDisk}}};
  const auto run = [&](const FailingAt& calls) {
    const DiskSeam seam{.files = &calls, .make_queue = [&](std::span<const int> files, int depth) {
                          return std::make_unique<ThreadQueue>(files, depth, calls);
                        }};
    return train(c, folder(), &seam);
  };
  const FailingAt none(-1, 0);
  const Outcome healthy = run(none);
  ASSERT_EQ(healthy.ends, std::vector<std::string>(2));
  for (int call = 0; call < none.num_calls; call += in_full_tier() ? 5 : 35) {
    SCOPED_TRACE(fmt::format("call {} of {}", call, none.num_calls.load()));
    const bool full = call % 2 == 0;
    const FailingAt failing(call, full ? -ENOSPC : -EIO);
    const Outcome failed = run(failing);
    if (failing.num_calls <= call) {  // an update that finishes earlier saves a read, so this run has no call `call`
      EXPECT_EQ(failed.ends, healthy.ends);
      EXPECT_GT(call, none.num_calls * 9 / 10);
      continue;
    }
    EXPECT_TRUE(failed.ends[1].starts_with("rank 1: ")) << failed.ends[1];
    expect_an_honest_end(c, failed, healthy, full ? "No space left on device" : "Input/output error");
    EXPECT_TRUE(std::filesystem::is_empty(folder()));
    if (HasFailure()) return;
  }
}

// The engine could not throw when the error happened, so the next call throws it.
TEST_F(DiskFaultsSlow, LaterCallsThrowHeldErrors) {
  on_ranks(1, [&](Communicator& comm) {
    FaultyDisk disk;
    const OffloadOptions offload{.fractions = kAllOnDisk, .disk = {folder()}};
    ScriptedModel model(comm, small_specs(), {.stage = 3, .offload = offload}, {.seams = {.disk_seam = &disk.seam}});
    RankEngine& engine = model.engine();
    const GatheredUnit other = engine.use(1, Use::kUntraced);
    {
      const GatheredUnit written = engine.use(0, Use::kUntraced);
      written.mark_written();
      disk.fail_next(Kind::kFull);
    }
    const std::string error = message_of<IoError>([&] { engine.finish(); });
    EXPECT_TRUE(says(error, "rank 0: unit wte: " + folder() + ": write of"));
    EXPECT_EQ(message_of<IoError>([&] { other.mark_written(); }), error);
    expect_no_way_on(model, error);
  });
}

TEST_F(DiskFaultsSlow, FailedLoadLeavesNoUsableEngine) {
  on_ranks(1, [&](Communicator& comm) {
    FaultyDisk disk;
    const OffloadOptions offload{.fractions = kAllOnDisk, .disk = {folder()}};
    ScriptedModel model(comm, small_specs(), {.stage = 3, .offload = offload}, {.seams = {.disk_seam = &disk.seam}});
    const int unit = model.unit_named("h.1");
    const std::vector<std::byte> values(65536);
    disk.fail_next(Kind::kError);
    const std::string error =
        message_of<IoError>([&] { model.engine().states().load(unit, values.data(), DType::kFloat32); });
    EXPECT_TRUE(says(error, "rank 0: unit h.1: " + folder() + ": write of"));
    expect_no_way_on(model, error);
  });
}

}  // namespace
}  // namespace zero
