#include "app/train/run/start/run_opening.h"

#include <mutex>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "tests/comm/transport/worlds.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class RunOpeningTest : public testing::Test {
 protected:
  RunOpeningTest() : folder_(temporary_ / "run") {
    job_.run_dir = folder_.path();
    job_.model.name = "gpt2";
    job_.train.steps = 5;
    job_.config_text = "[model]\nname = \"gpt2\"\nwidth = 16\n";
    job_.checkpoint.every_steps = 2;
  }

  // Opens the run on one rank.
  template <typename Look>
  void open(Look look) {
    run_ranks(1, [&](World& world) {
      RunCheckpoints checkpoints(job_.checkpoint, folder_.files().checkpoints, std::nullopt, world.communicator(),
                                 [](const std::string&) {});
      look(RunOpening(job_, folder_, checkpoints, world.communicator()));
    });
  }
  // The messages at the start of the run.
  std::string start() {
    std::string said;
    open([&](const RunOpening& opening) { opening.require_may_start([&](const std::string& line) { said += line; }); });
    return said;
  }
  // Leaves the folder as a launch does until its first results.
  void begin(std::string_view launch) {
    folder_.create(launch);
    write_file(folder_.files().config, job_.config_text);
  }

  TemporaryFolder temporary_;
  RunFolder folder_;
  TrainJob job_;
};

TEST_F(RunOpeningTest, ANewFolderBeginsInSilence) {
  open([](const RunOpening& opening) {
    EXPECT_FALSE(opening.is_done());
    EXPECT_FALSE(opening.resumes());
  });
  EXPECT_EQ(start(), "");
  EXPECT_FALSE(std::filesystem::exists(folder_.path())) << "require_may_start() creates no folder";
}

// The run reports that it begins again.
TEST_F(RunOpeningTest, RunCutShortBeginsAgain) {
  begin("");
  EXPECT_TRUE(says(start(), "before its first checkpoint: it begins again"));
  job_.config_text += "heads = 2\n";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { start(); }), "holds a run already")) << "another configuration's";
  job_.overwrite = true;
  EXPECT_EQ(start(), "");
}

TEST_F(RunOpeningTest, LaterAttemptContinuesEarlierOne) {
  begin("launch");
  job_.checkpoint = {};
  EXPECT_THROW(start(), ConfigError);
  job_.launch = {.name = "launch", .is_restart = true};
  EXPECT_TRUE(says(start(), "it begins again"));
}

// torchrun's restarts have --overwrite again.
TEST_F(RunOpeningTest, RestartOverwritesNoOtherRun) {
  begin("launch");
  job_.checkpoint = {};
  job_.overwrite = true;
  job_.launch = {.name = "launch", .is_restart = true, .keeps_runs = true};
  EXPECT_TRUE(says(start(), "it begins again")) << "the first attempt of this launch has begun it";
  for (const char* const other : {"another", ""}) {
    job_.launch = {.name = other, .is_restart = *other != '\0', .keeps_runs = true};
    const std::string message = message_of<ConfigError>([&] { start(); });
    EXPECT_TRUE(says(message, "torchrun has restarted the ranks with --overwrite")) << message;
    EXPECT_TRUE(says(message, "without --overwrite to continue this run")) << message;
  }
  job_.launch.keeps_runs = false;
  EXPECT_EQ(start(), "") << "a first attempt overwrites";
  job_.launch.keeps_runs = true;
  std::filesystem::remove_all(folder_.path());
  EXPECT_EQ(start(), "") << "an attempt that finds no run begins";
}

// Rank 0 is on another machine than before, which has another agent.
TEST_F(RunOpeningTest, AnyRankKnowsItsLaunch) {
  begin("launch");
  job_.overwrite = true;
  run_ranks(2, [&](World& world) {
    TrainJob job = job_;
    job.launch = {.name = world.rank() == 1 ? "launch" : "another", .is_restart = true, .keeps_runs = true};
    RunCheckpoints checkpoints(job.checkpoint, folder_.files().checkpoints, std::nullopt, world.communicator(),
                               [](const std::string&) {});
    EXPECT_NO_THROW(RunOpening(job, folder_, checkpoints, world.communicator()));
  });
}

// The launcher of rank 0 is a new one, and that of the other machine is not; only rank 0 sees the folder.
TEST_F(RunOpeningTest, OtherMachinesLauncherContinuesTheRun) {
  const RunFolder elsewhere(temporary_ / "elsewhere");
  job_.checkpoint = {};
  job_.overwrite = true;
  const auto open_as = [&](const char* first, bool is_restart, const auto& look) {
    run_ranks(2, [&](World& world) {
      const bool is_first = world.rank() == 0;
      TrainJob job = job_;
      job.launch = {.name = is_first ? first : "second", .is_restart = is_restart && !is_first};
      const RunFolder& folder = is_first ? folder_ : elsewhere;
      RunCheckpoints checkpoints(job.checkpoint, folder.files().checkpoints, std::nullopt, world.communicator(),
                                 [](const std::string&) {});
      const RunOpening opening(job, folder, checkpoints, world.communicator());
      std::string said;
      opening.require_may_start([&](const std::string& line) { said += line; });
      if (is_first) look(opening, said);
    });
  };
  open_as("first", false, [&](const RunOpening& opening, const std::string& said) {
    EXPECT_EQ(said, "");
    begin(opening.launches());
  });
  open_as("newer", true, [](const RunOpening&, const std::string& said) {
    EXPECT_TRUE(says(said, "it begins again")) << "the run of this launch";
  });
  open_as("newer", false, [](const RunOpening&, const std::string& said) { EXPECT_EQ(said, "") << "another launch"; });
}

// A finished run names changes that have no effect.
TEST_F(RunOpeningTest, FinishedRunNamesUselessChanges) {
  begin("launch");
  job_.launch = {.name = "launch", .is_restart = true};
  write_file(folder_.files().report, "{\"steps\": 5}\n");
  write_file(folder_.files().model, "weights");
  job_.config_text = "[model]\nname = \"gpt2\"\nwidth = 16\ndropout = 0.5\n";
  open([&](const RunOpening& opening) {
    ASSERT_TRUE(opening.is_done());
    EXPECT_TRUE(says(opening.why_done(), "done already, all 5 steps"));
    EXPECT_TRUE(says(opening.why_done(),
                     "\n  nothing is trained, so these changes have no effect: model.dropout = (none) -> 0.5"));
    opening.require_same_model();
  });
  job_.train.steps = 3;
  open([](const RunOpening& opening) {
    EXPECT_TRUE(says(opening.why_done(),
                     "done already, all 5 steps, which is more than train.steps = 3; continue with a larger"));
  });
  job_.train.steps = 6;
  open([](const RunOpening& opening) { EXPECT_FALSE(opening.is_done()); });
}

TEST_F(RunOpeningTest, OtherModelDoesNotContinue) {
  begin("");
  job_.config_text = "[model]\nname = \"gpt2\"\nwidth = 32\n";
  open([](const RunOpening& opening) {
    EXPECT_TRUE(says(message_of<ConfigError>([&] { opening.require_same_model(); }),
                     "holds a run of another model: model.width = 16, not 32"));
  });
}

TEST_F(RunOpeningTest, SomeRanksDoNotOverwriteAlone) {
  std::mutex mutex;
  int refused = 0;
  run_ranks(2, [&](World& world) {
    TrainJob job = job_;
    job.overwrite = world.rank() == 1;
    RunCheckpoints checkpoints(job.checkpoint, folder_.files().checkpoints, std::nullopt, world.communicator(),
                               [](const std::string&) {});
    const auto message = message_of<ConfigError>([&] { RunOpening(job, folder_, checkpoints, world.communicator()); });
    const std::scoped_lock lock(mutex);
    if (says(message, "only some ranks have it")) ++refused;
  });
  EXPECT_EQ(refused, 2);
}

TEST_F(RunOpeningTest, RankZeroHoldsTheFolder) {
  run_ranks(2, [&](World& world) {
    const auto lock = hold_folder(folder_, world.communicator());
    EXPECT_EQ(lock.has_value(), world.rank() == 0);
  });
}

}  // namespace
}  // namespace zero
