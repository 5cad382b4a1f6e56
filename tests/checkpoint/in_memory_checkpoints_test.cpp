#include "zero/checkpoint/in_memory_checkpoints.h"

#include <csignal>
#include <functional>
#include <optional>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"

#include "tests/checkpoint/launcher.h"
#include "tests/checkpoint/saved_model.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using Bits = std::vector<std::vector<std::uint32_t>>;

// Trains from `from` to `to`, and first loads the newest copy if `from` is not 0. Makes a copy before each step of
// `at`.
Bits run(Launcher& launcher, const Cell& cell, int from, int to, std::vector<int> at) {
  Bits end(static_cast<std::size_t>(cell.world));
  on_ranks(cell.world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(cell.dtype), options_of(cell));
    InMemoryCheckpoints kept(launcher.connect(), "run");
    if (from > 0) {
      EXPECT_EQ(kept.steps(), std::vector<std::int64_t>{from});
      load_checkpoint(model.engine(), kept.path_of(from), kept.files_of(from));
    }
    for (int step = from; step < to; ++step) {
      if (std::ranges::find(at, step) != at.end()) {
        EXPECT_TRUE(kept.save(model.engine(), step, {.run = {{"step", std::to_string(step)}}}));
      }
      train_steps(model, step, step + 1, cell.accumulate);
    }
    end[static_cast<std::size_t>(comm.rank())] = state_bits(model.engine());
  });
  return end;
}

TEST(InMemoryCheckpointsSlowOnAnyDevice, NewRanksContinueWithSameBits) {
  for (const int world : {1, 3}) {
    for (const int stage : {0, 3}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        const Cell cell{.world = world, .stage = stage, .dtype = dtype};
        Launcher launcher, nobody;
        const Bits whole = run(nobody, cell, 0, 6, {});
        run(launcher, cell, 0, 4, {1, 2, 3});
        launcher.names();
        EXPECT_EQ(run(launcher, cell, 3, 6, {}), whole) << "world " << world << ", stage " << stage;
      }
    }
  }
}

TEST(InMemoryCheckpoints, FewerRanksContinue) {
  Launcher launcher;
  run(launcher, {.world = 3, .stage = 3}, 0, 3, {2});
  std::vector<float> saved, found;
  const auto parameters = [](RankEngine& engine) {
    std::vector<float> all;
    for (const Unit& unit : engine.units())
      engine.states().read_full_precision(unit.index, [&](std::span<const float> values) {
        all.insert(all.end(), values.begin(), values.begin() + unit.numel);
      });
    return all;
  };
  on_ranks(3, [&](Communicator& comm) {
    InMemoryCheckpoints kept(launcher.connect(), "run");
    ScriptedModel model(comm, small_specs(DType::kFloat32), options_of({.world = 3, .stage = 1}));
    load_checkpoint(model.engine(), kept.path_of(2), kept.files_of(2));
    const auto all = parameters(model.engine());
    if (comm.rank() == 0) saved = all;
  });
  on_ranks(2, [&](Communicator& comm) {
    InMemoryCheckpoints kept(launcher.connect(), "run");
    ScriptedModel model(comm, small_specs(DType::kFloat32), options_of({.world = 2, .stage = 3}));
    load_checkpoint(model.engine(), kept.path_of(2), kept.files_of(2));
    const auto all = parameters(model.engine());
    if (comm.rank() == 0) found = all;
  });
  EXPECT_FALSE(saved.empty());
  EXPECT_EQ(found, saved);
}

TEST(InMemoryCheckpoints, TheNewestAloneIsKept) {
  Launcher launcher;
  run(launcher, {.world = 2}, 0, 6, {1, 2, 3, 4, 5});
  const std::string step = InMemoryCheckpoints(launcher.connect(), "run").path_of(5).string();
  EXPECT_EQ(launcher.names(), (std::vector<std::string>{step + "/manifest.json", step + "/rank-00000.safetensors",
                                                        step + "/rank-00001.safetensors"}));
}

TEST(InMemoryCheckpoints, AnotherRunSeesNone) {
  Launcher launcher;
  run(launcher, {.world = 2}, 0, 3, {2});
  EXPECT_TRUE(InMemoryCheckpoints(launcher.connect(), "another").steps().empty());
}

TEST(InMemoryCheckpoints, DeadRanksUnfinishedOneIsNone) {
  Launcher launcher;
  run(launcher, {.world = 2}, 0, 3, {2});
  LauncherMemory dying = launcher.connect();  // a rank that dies before its copy is complete
  const FileDescriptor half = make_memory_file("half", 100);
  InMemoryCheckpoints kept(launcher.connect(), "run");
  dying.put((kept.path_of(3).parent_path() / "tmp/rank-00000.safetensors").string(), half.get());
  EXPECT_EQ(kept.steps(), std::vector<std::int64_t>{2});
}

TEST(InMemoryCheckpointsOnAnyDevice, AFlippedBitIsFound) {
  Launcher launcher;
  run(launcher, {.world = 2}, 0, 3, {2});
  const auto folder = InMemoryCheckpoints(launcher.connect(), "run").path_of(2);
  const int file = launcher.find((folder / "rank-00001.safetensors").string());
  ASSERT_GE(file, 0);
  unsigned char byte = 0;
  ASSERT_EQ(pread(file, &byte, 1, 2000), 1);
  byte ^= 4;
  ASSERT_EQ(pwrite(file, &byte, 1, 2000), 1);
  on_ranks(2, [&](Communicator& comm) {
    InMemoryCheckpoints kept(launcher.connect(), "run");
    ScriptedModel model(comm, small_specs(DType::kFloat32), options_of({}));
    EXPECT_THROW(load_checkpoint(model.engine(), kept.path_of(2), kept.files_of(2)), IoError);
  });
}

TEST(InMemoryCheckpoints, RankWithoutRoomStopsCopying) {
  Launcher launcher;
  on_ranks(2, [&](Communicator& comm) {
    constexpr std::int64_t kPlenty = std::int64_t{1} << 40;
    std::int64_t free_bytes = comm.rank() == 1 ? 4096 : kPlenty;
    ScriptedModel model(comm, small_specs(), options_of({}),
                        {.seams = {.read_memory = [&free_bytes] { return MemoryReading{.free_bytes = free_bytes}; }}});
    InMemoryCheckpoints kept(launcher.connect(), "run");
    EXPECT_FALSE(kept.save(model.engine(), 1, {}));
    EXPECT_TRUE(kept.steps().empty());
    EXPECT_EQ(model.engine().resources().ledger.held(Tier::kHost, MemoryTag::kStaging), 0);
    free_bytes = kPlenty;
    EXPECT_TRUE(kept.save(model.engine(), 1, {}));
    EXPECT_EQ(kept.steps(), std::vector<std::int64_t>{1});
  });
}

// Limits the size of this process's memory files.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit less{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

LauncherMemory without_launcher() {
  auto [ours, theirs] = UnixSocket::pair();
  return {std::move(theirs), std::chrono::seconds(5)};
}

using Attempt = std::function<void(Communicator&, RankEngine&, InMemoryCheckpoints&)>;

// Copies steps 1 to `good`. Then `attempt` must fail on every rank with these words, and copy `good` must remain whole.
void expect_reported_and_intact(Launcher& launcher, int good, const std::string& words, const Attempt& attempt) {
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    InMemoryCheckpoints kept(launcher.connect(), "run");
    for (int step = 1; step <= good; ++step) {
      train_steps(model, step - 1, step, 1);
      EXPECT_TRUE(kept.save(model.engine(), step, {}));
    }
    const auto saved = state_bits(model.engine());
    train_steps(model, good, good + 1, 1);
    const std::string told = message_of<IoError>([&] { attempt(comm, model.engine(), kept); });
    EXPECT_NE(told.find(words), std::string::npos) << told;
    InMemoryCheckpoints found(launcher.connect(), "run");
    EXPECT_EQ(found.steps(), std::vector<std::int64_t>{good});
    load_checkpoint(model.engine(), found.path_of(good), found.files_of(good));
    EXPECT_EQ(state_bits(model.engine()), saved);
  });
}

TEST(InMemoryCheckpoints, MissingMemoryIsReportedOldStays) {
  for (const int good : {1, 2}) {  // copy 2 takes new memory; copy 3 must enlarge that of copy 1
    Launcher launcher;
    std::optional<SizeLimit> limit;
    expect_reported_and_intact(
        launcher, good, "File too large", [&](Communicator& comm, RankEngine& engine, InMemoryCheckpoints& kept) {
          if (comm.rank() == 0) limit.emplace(1024);
          comm.barrier({}).wait();
          const std::int64_t held = engine.resources().ledger.held(Tier::kHost, MemoryTag::kStaging);
          EXPECT_GT(held, 0);
          EXPECT_THROW((void)kept.save(engine, good + 1, {}), IoError);
          EXPECT_EQ(engine.resources().ledger.held(Tier::kHost, MemoryTag::kStaging), held)
              << "memory that was not allocated is not charged";
          (void)kept.save(engine, good + 1, {});
        });
  }
}

TEST(InMemoryCheckpoints, LostLauncherFailsEveryRank) {
  Launcher launcher;
  expect_reported_and_intact(
      launcher, 1, "rank 1: ", [&](Communicator& comm, RankEngine& engine, InMemoryCheckpoints&) {
        InMemoryCheckpoints kept(comm.rank() == 1 ? without_launcher() : launcher.connect(), "run");
        (void)kept.save(engine, 2, {});
      });
}

TEST(InMemoryCheckpoints, LostLauncherIsReportedEverywhere) {
  const auto ends = ends_of_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    InMemoryCheckpoints kept(without_launcher(), "run");
    (void)kept.save(model.engine(), 1, {});
  });
  for (const std::string& end : ends) EXPECT_NE(end.find("the launcher has ended"), std::string::npos) << end;
}

// The old checkpoint has three names. The table refuses a rank's file or the manifest of the new one.
TEST(InMemoryCheckpoints, FullNameTableIsReportedEverywhere) {
  for (const std::size_t most_names : {4, 5}) {
    Launcher launcher(most_names);
    expect_reported_and_intact(
        launcher, 1, "this is the limit",
        [&](Communicator&, RankEngine& engine, InMemoryCheckpoints& kept) { (void)kept.save(engine, 2, {}); });
  }
}

TEST(InMemoryCheckpoints, CopiesAgainAfterAFailure) {
  Launcher launcher;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    InMemoryCheckpoints kept(launcher.connect(), "run");
    {
      InMemoryCheckpoints failing(comm.rank() == 0 ? without_launcher() : launcher.connect(), "run");
      EXPECT_THROW((void)failing.save(model.engine(), 1, {}), IoError);
    }
    train_steps(model, 0, 2, 1);
    EXPECT_TRUE(kept.save(model.engine(), 2, {}));
    const auto saved = state_bits(model.engine());
    train_steps(model, 2, 3, 1);
    EXPECT_EQ(kept.steps(), std::vector<std::int64_t>{2});
    load_checkpoint(model.engine(), kept.path_of(2), kept.files_of(2));
    EXPECT_EQ(state_bits(model.engine()), saved);
  });
}

TEST(InMemoryCheckpoints, ItsStepsAreReadFromNames) {
  EXPECT_EQ(kept_step("kept/1f/step-00000040/manifest.json"), 40);
  for (const char* name : {"kept/1f/step-00000040/rank-00000.safetensors", "kept/1f/tmp/manifest.json",
                           "step-4/manifest.json", "kept/step-4/manifest.json", "kept/1f/step-/manifest.json",
                           "kept/1f/step-4manifest.json", "kept/1f/step-4/old/manifest.json", "kept/1f", "kept/", ""})
    EXPECT_EQ(kept_step(name), -1) << name;
}

}  // namespace
}  // namespace zero
