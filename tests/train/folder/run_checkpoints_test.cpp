#include "app/train/folder/run_checkpoints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"
#include "zero/torch/attached_module.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/module/model_tensors.h"

#include "app/train/run/run_end.h"
#include "tests/checkpoint/launcher.h"
#include "tests/support/forwarded_communicator.h"
#include "tests/support/message_of.h"
#include "tests/support/occurrences.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

class RunCheckpointsTest : public testing::Test {
 protected:
  RunCheckpointsTest() : worlds_(World::in_process(1, {})), engine_(attach(*net_, worlds_.front(), {.stage = 1})) {}

  // The checkpoints of one run. If `launcher` is given, it holds in-memory checkpoints.
  RunCheckpoints checkpoints(const CheckpointPolicy& policy, Launcher* launcher = nullptr) {
    std::optional<LauncherMemory> memory;
    if (launcher != nullptr) memory.emplace(launcher->connect());
    return RunCheckpoints(policy, files_, std::move(memory), worlds_.front().communicator(),
                          [this](const std::string& line) { said_ += line + '\n'; });
  }
  static RunState state_at(std::int64_t step) {
    const auto steps = static_cast<std::size_t>(step);
    return {.step = step,
            .samples = 10 * step,
            .losses = std::vector<float>(steps, 1.5F),
            .grad_norms = std::vector<double>(steps, 2.5),
            .seconds = std::vector<double>(steps, 0.5),
            .skipped = {},
            .rewinds = 1,
            .spikes = 2};
  }
  void save(RunCheckpoints& checkpoints, std::int64_t step, SaveMode mode = SaveMode::kSync) {
    checkpoints.begin(engine_, state_at(step), "[train]\n", mode);
    checkpoints.finish(engine_);
  }
  void damage(std::int64_t step) {
    const fs::path file = files_.path_of(step) / "rank-00000.safetensors";
    fs::resize_file(file, fs::file_size(file) - 1);
  }
  // Resumes, and captures the messages on standard error.
  std::optional<Resumed> resume(RunCheckpoints& checkpoints,
                                std::int64_t newest = std::numeric_limits<std::int64_t>::max()) {
    testing::internal::CaptureStderr();
    std::optional<Resumed> resumed = checkpoints.resume(engine_, newest);
    errors_ = testing::internal::GetCapturedStderr();
    return resumed;
  }
  Steps on_disk() const {
    Steps steps;
    for (const auto& entry : files_.list()) steps.push_back(entry.step);
    return steps;
  }

  TemporaryFolder folder_;
  CheckpointFolder files_{folder_ / "checkpoints"};
  std::vector<World> worlds_;
  torch::nn::Linear net_{4, 2};
  Engine engine_;
  std::string said_, errors_;
};

// The newest checkpoints on disk and the one in memory are kept.
TEST_F(RunCheckpointsTest, NewestStayBesideMemoryCopy) {
  Launcher launcher;
  RunCheckpoints run = checkpoints({.every_steps = 1, .keep = 2, .memory_every = 1}, &launcher);
  EXPECT_EQ(resume(run), std::nullopt);
  for (const SaveMode mode : {SaveMode::kSync, SaveMode::kAsync}) {
    for (std::int64_t step = 1; step <= 4; ++step) {
      run.save_in_memory(engine_, state_at(step), "");
      save(run, mode == SaveMode::kSync ? step : step + 4, mode);
    }
  }
  EXPECT_EQ(on_disk(), (Steps{8, 7}));
  EXPECT_EQ(run.steps(), (Steps{8, 7, 4}));
  run.save_in_memory(engine_, state_at(8), "");
  EXPECT_EQ(run.steps(), (Steps{8, 8, 7}));
  EXPECT_TRUE(says(said_, "in-memory checkpoint: step 1, "));
  EXPECT_TRUE(says(said_, "checkpoint: step 8, "));
}

// A due save is not dropped while another save runs.
TEST_F(RunCheckpointsTest, DueSaveWaitsForRunningOne) {
  RunCheckpoints run = checkpoints({.every_steps = 1});
  for (std::int64_t step = 1; step <= 3; ++step) {
    run.begin(engine_, state_at(step), "", SaveMode::kAsync);
    for (std::int64_t before = 1; before < step; ++before) EXPECT_TRUE(fs::exists(files_.path_of(before))) << before;
  }
  EXPECT_FALSE(says(said_, "training waits while checkpoints are written")) << "they are not asynchronous";
  EXPECT_FALSE(says(said_, "checkpoint: step 3, ")) << "a save is reported when the run asks for it";
  run.finish(engine_);
  EXPECT_EQ(on_disk(), (Steps{3, 2, 1}));
  for (std::int64_t step = 1; step <= 3; ++step)
    EXPECT_TRUE(says(said_, fmt::format("checkpoint: step {}, ", step))) << said_;
}

// Reports `questions` times to the other ranks that this rank has not written its save. Counts the gathers that have
// begun and that nobody has waited for.
class LateSave final : public ForwardedCommunicator {
 public:
  using ForwardedCommunicator::ForwardedCommunicator;

  void hold_for(int questions) { left_ = questions; }
  int questions_left() const { return left_; }
  int in_flight() const { return in_flight_; }

  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    if (!tag.control)
      return Work(std::make_unique<Gather>(in_flight_, ForwardedCommunicator::all_gather(in, out, tag)));
    const bool asked = left_ > 0 && in.size() == sizeof(std::int64_t) && in.front() == std::byte{1};
    if (!asked) return ForwardedCommunicator::all_gather(in, out, tag);
    --left_;
    return ForwardedCommunicator::all_gather(std::as_bytes(std::span(&kNotYet, 1)), out, tag);
  }

 private:
  static constexpr std::int64_t kNotYet = 0;

  class Gather final : public Work::Operation {
   public:
    Gather(int& in_flight, Work work) : in_flight_(in_flight), work_(std::move(work)) { ++in_flight_; }
    void wait() override {
      work_.wait();
      --in_flight_;
    }

   private:
    int& in_flight_;
    Work work_;
  };

  int left_ = 0;
  int in_flight_ = 0;
};

// The ranks exchange more questions than works may be in flight, while the step's gathers of parameters are still open.
TEST_F(RunCheckpointsTest, WaitingSaveLeavesNoGather) {
  constexpr int kQuestions = 100, kRanks = 2;
  auto real = make_in_process(kRanks, std::chrono::seconds(20));
  std::vector<LateSave*> comms;
  std::vector<World> worlds;
  for (auto& one : real) {
    auto comm = std::make_unique<LateSave>(std::move(one));
    comms.push_back(comm.get());
    worlds.emplace_back(std::move(comm), kRanks);
  }
  std::vector<std::exception_ptr> errors(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 2));
        Engine engine = attach(*net, worlds[rank], {.stage = 1});
        RunCheckpoints run({.every_steps = 1}, files_, std::nullopt, worlds[rank].communicator(),
                           [](const std::string&) {});
        run.begin(engine, state_at(1), "", SaveMode::kAsync);
        net->forward(torch::ones({1, 4})).sum().backward();
        engine.step();
        EXPECT_GT(comms[rank]->in_flight(), 0);
        if (rank == 1) comms[rank]->hold_for(kQuestions);
        run.begin(engine, state_at(2), "", SaveMode::kAsync);
        EXPECT_EQ(comms[rank]->questions_left(), 0);
        run.finish(engine);
        engine.abandon();
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  EXPECT_EQ(on_disk(), (Steps{2, 1}));
}

TEST_F(RunCheckpointsTest, RestoresRunsOwnValues) {
  RunCheckpoints run = checkpoints({.every_steps = 1});
  save(run, 3);
  const auto resumed = resume(run);
  ASSERT_TRUE(resumed);
  const RunState expected = state_at(3);
  EXPECT_EQ(resumed->state.samples, expected.samples);
  EXPECT_EQ(resumed->state.losses, expected.losses);
  EXPECT_EQ(resumed->state.grad_norms, expected.grad_norms);
  EXPECT_EQ(resumed->state.seconds, expected.seconds);
  EXPECT_EQ(resumed->state.rewinds, expected.rewinds);
  EXPECT_EQ(resumed->state.spikes, expected.spikes);
  EXPECT_EQ(resumed->manifest.config, "[train]\n");
  EXPECT_TRUE(resumed->state.sent.empty());
  EXPECT_EQ(resumed->state.line, "");
  EXPECT_EQ(resumed->state.served.updates, 0);
}

TEST_F(RunCheckpointsTest, RestoresSumsOfTheSteps) {
  RunCheckpoints run = checkpoints({.every_steps = 1});
  RunState state = state_at(3);
  state.sent = {{.total = 70, .between_copies = 5}, {.total = 80, .between_copies = 6}};
  state.line = R"({"step": 3, "loss": 1})";
  state.served = {.updates = 9, .dropped = 1, .mean_age = 0.5, .pushed_bytes = 11, .of_workers = {4, 5}};
  run.begin(engine_, state, "[train]\n", SaveMode::kSync);
  run.finish(engine_);
  const auto resumed = resume(run);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->state.sent_by(1).total, 80);
  EXPECT_EQ(resumed->state.sent_by(1).between_copies, 6);
  EXPECT_EQ(resumed->state.sent_by(2).total, 0) << "a further rank begins at 0";
  EXPECT_EQ(resumed->state.line, state.line);
  EXPECT_EQ(resumed->state.served.updates, 9);
  EXPECT_EQ(resumed->state.served.mean_age, 0.5);
  EXPECT_EQ(resumed->state.served.pushed_bytes, 11);
  EXPECT_EQ(resumed->state.served.of_workers, (std::vector<std::int64_t>{4, 5}));
}

// If both have the same step, the checkpoint in memory is taken.
TEST_F(RunCheckpointsTest, TakesNewestFromAnyPlace) {
  Launcher launcher;
  RunCheckpoints run = checkpoints({.every_steps = 1, .memory_every = 1}, &launcher);
  save(run, 4);
  run.save_in_memory(engine_, state_at(5), "");
  auto resumed = resume(run);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->state.step, 5);
  EXPECT_EQ(resumed->place, "an in-memory checkpoint that the launcher kept");
  save(run, 6);
  resumed = resume(run);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->state.step, 6);
  EXPECT_EQ(resumed->place, files_.path_of(6).string());
  run.save_in_memory(engine_, state_at(6), "");
  resumed = resume(run);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->place, "an in-memory checkpoint that the launcher kept");
}

// A run ended while its best checkpoint was being written. The launcher has that step.
TEST_F(RunCheckpointsTest, BestInMemoryIsLacking) {
  Launcher launcher;
  RunCheckpoints run = checkpoints({.every_steps = 1, .keep_best = BestMeasure::kLoss, .memory_every = 1}, &launcher);
  RunState state = state_at(5);
  state.best = {.measure = BestMeasure::kLoss, .step = 5, .value = 1.5, .evaluated = 5};
  run.save_in_memory(engine_, state, "");
  const auto resumed = resume(run);
  ASSERT_TRUE(resumed);
  EXPECT_TRUE(run.lacks_best(resumed->state.best));
  run.begin(engine_, resumed->state, "", SaveMode::kSync);
  run.finish(engine_);
  EXPECT_FALSE(run.lacks_best(resumed->state.best));
}

// The damaged checkpoint is named, and the one before is used.
TEST_F(RunCheckpointsTest, DamagedNewestFallsBack) {
  RunCheckpoints run = checkpoints({.every_steps = 1});
  for (std::int64_t step = 1; step <= 3; ++step) save(run, step);
  damage(3);
  const auto resumed = resume(run);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->state.step, 2);
  EXPECT_TRUE(says(errors_, "this checkpoint is skipped"));
  EXPECT_TRUE(says(errors_, files_.path_of(3).string()));
  EXPECT_EQ(on_disk(), (Steps{3, 2, 1})) << "the user must remove it";
}

// One error names all of them.
TEST_F(RunCheckpointsTest, AllDamagedNamesEachOnce) {
  RunCheckpoints run = checkpoints({.every_steps = 1});
  for (std::int64_t step = 1; step <= 2; ++step) save(run, step);
  damage(1);
  damage(2);
  testing::internal::CaptureStderr();
  const std::string error = message_of<IoError>([&] { run.resume(engine_); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(says(error, "checkpoints: no checkpoint can be read:\n  " + files_.path_of(2).string()));
  EXPECT_TRUE(says(error, "\n  " + files_.path_of(1).string()));
  EXPECT_TRUE(says(error, "\n  Start again from the beginning with --overwrite."));
}

// The damaged checkpoint is named, and the one on disk is used.
TEST_F(RunCheckpointsTest, DamagedMemoryCopyUsesDisks) {
  Launcher launcher;
  RunCheckpoints run = checkpoints({.every_steps = 1, .memory_every = 1}, &launcher);
  save(run, 2);
  run.save_in_memory(engine_, state_at(3), "");
  const std::string name =
      InMemoryCheckpoints(launcher.connect(), fs::weakly_canonical(files_.path()).string()).path_of(3).string();
  const int file = launcher.find(name + "/rank-00000.safetensors");
  ASSERT_GE(file, 0);
  unsigned char byte = 0;
  ASSERT_EQ(pread(file, &byte, 1, 100), 1);
  byte ^= 4;
  ASSERT_EQ(pwrite(file, &byte, 1, 100), 1);
  const auto resumed = resume(run);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->state.step, 2);
  EXPECT_TRUE(says(errors_, "this checkpoint is skipped"));
}

// Two ranks train as if on two machines. Step 2 is saved on disk, and step 3 in memory. Then rank 1 has another
// launcher. The loss is reported once, and the checkpoint on disk is used.
TEST_F(RunCheckpointsTest, LostLauncherMemoryUsesDisks) {
  constexpr int kRanks = 2;
  std::array<std::optional<Launcher>, 2> launchers;
  for (auto& launcher : launchers) launcher.emplace();
  for (const bool lost : {false, true}) {
    if (lost) launchers[1].emplace();
    auto comms = make_in_process(kRanks, std::chrono::seconds(20));
    std::vector<std::exception_ptr> errors(kRanks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          World world(std::move(comms[rank]), 1);
          torch::nn::Linear net(4, 2);
          Engine engine = attach(*net, world, {.stage = 1});
          std::string said;
          RunCheckpoints run(
              {.every_steps = 1, .memory_every = 1}, files_, launchers[rank]->connect(), world.communicator(),
              [&](const std::string& line) { said += line + '\n'; }, RunCheckpoints::Machines::kSeveral);
          if (!lost) {
            EXPECT_EQ(run.steps(), Steps{});
            run.begin(engine, state_at(2), "", SaveMode::kSync);
            run.finish(engine);
            run.save_in_memory(engine, state_at(3), "");
            EXPECT_TRUE(says(said, "in-memory checkpoint: step 3, ")) << said;
            EXPECT_TRUE(says(said, "the launchers keep the newest")) << said;
          }
          EXPECT_EQ(run.steps(), lost ? Steps{2} : (Steps{3, 2}));
          const auto resumed = run.resume(engine);
          EXPECT_EQ(resumed.value().state.step, lost ? 2 : 3);
          EXPECT_EQ(resumed->place,
                    lost ? files_.path_of(2).string() : "an in-memory checkpoint that the launchers kept");
          const std::string line =
              "note: the in-memory checkpoint of step 3 is not used: the launcher of rank 1 does not have it\n";
          EXPECT_EQ(occurrences(line, said), lost ? 1 : 0) << said;
          engine.abandon();
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& error : errors)
      if (error) std::rethrow_exception(error);
  }
}

// The staging memory that an asynchronous save keeps is released first.
TEST_F(RunCheckpointsTest, ReleasesStagingBeforeRefusingCopy) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  std::vector<World> worlds = World::in_process(1, {});
  torch::nn::Linear net(4, 2);
  AttachedModule* attached = nullptr;
  const auto held = [&] { return attached->engine().resources().ledger.held(Tier::kHost, MemoryTag::kStaging); };
  AttachOptions options{.stage = 1};
  options.offload.monitor.on = false;
  options.offload.monitor.reserve_bytes = 1;
  // The memory suffices for an image of 2 MiB or for a copy of 1 MiB, with a quarter left over, but not for both.
  const auto read = [&] { return MemoryReading{.free_bytes = 3 * kMiB - held()}; };
  AttachedModule engine(tensors_of(*net), worlds.front(), options, {.seams = {.read_memory = read}});
  attached = &engine;
  EngineControl(engine).begin_save(folder_ / "c", {}, SaveMode::kAsync)->wait();
  EXPECT_EQ(held(), 2 * kMiB) << "kept for the next save";
  Launcher launcher;
  InMemoryCheckpoints kept(launcher.connect(), "run");
  EXPECT_TRUE(EngineControl(engine).keep(kept, 1, {}));
  EXPECT_EQ(kept.steps(), Steps{1});
  EXPECT_EQ(held(), kMiB) << "only the copy";
}

TEST_F(RunCheckpointsTest, NoneBehindTheLimitIsTaken) {
  RunCheckpoints run = checkpoints({.every_steps = 1});
  for (std::int64_t step = 1; step <= 3; ++step) save(run, step);
  EXPECT_EQ(resume(run, 2).value().state.step, 2);
  EXPECT_EQ(resume(run, 3).value().state.step, 3);
  EXPECT_EQ(resume(run, 0), std::nullopt);
  damage(1);
  testing::internal::CaptureStderr();
  const std::string error = message_of<IoError>([&] { run.resume(engine_, 1); });
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(says(error, "no checkpoint can be read"));
  EXPECT_TRUE(says(error, files_.path_of(1).string())) << "a later checkpoint is whole, but beyond the limit";
}

TEST_F(RunCheckpointsTest, MissingCountMayBeOlderVersion) {
  RunCheckpoints run = checkpoints({.every_steps = 1});
  save(run, 1);
  Manifest manifest = read_manifest(files_.path_of(1));
  ASSERT_EQ(manifest.run.erase("spikes"), 1U);
  folder_.write("checkpoints/step-00000001/manifest.json", to_text(manifest));
  testing::internal::CaptureStderr();
  const std::string error = message_of<IoError>([&] { run.resume(engine_, std::numeric_limits<std::int64_t>::max()); });
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(says(error, "the run's \"spikes\": it is damaged, or written by an earlier version"));
}

// In-memory checkpoints are due only if a launcher holds them.
TEST_F(RunCheckpointsTest, StepsOrTimeMakeThemDue) {
  RunCheckpoints by_steps = checkpoints({.every_steps = 3, .memory_every = 2});
  EXPECT_TRUE(by_steps.due(6, 10, false));
  EXPECT_FALSE(by_steps.due(7, 10, true));
  EXPECT_TRUE(by_steps.due(10, 10, false)) << "the last step is also due";
  EXPECT_FALSE(by_steps.due_in_memory(2)) << "no launcher holds them";
  RunCheckpoints by_time = checkpoints({.every_seconds = 1e-9});
  EXPECT_FALSE(by_time.due(1, 10, false));
  EXPECT_TRUE(by_time.due(1, 10, true));
  EXPECT_TRUE(checkpoints({.every_seconds = 3600}).due(10, 10, false)) << "a short run also saves its end";
  EXPECT_FALSE(checkpoints({}).due(10, 10, true)) << "no checkpoints are configured";
  Launcher launcher;
  RunCheckpoints held = checkpoints({.memory_every = 2}, &launcher);
  EXPECT_TRUE(held.due_in_memory(4));
  EXPECT_FALSE(held.due_in_memory(5));
}

// If the run cannot end, the error names the place of its trained weights.
TEST_F(RunCheckpointsTest, StuckEndNamesTrainedWeights) {
  const RunFolder folder(folder_.path());
  RunCheckpoints run = checkpoints({.every_steps = 3});
  EXPECT_TRUE(says(where_training_is(folder, run, true, false, 3), "the last save failed"));
  EXPECT_TRUE(says(where_training_is(folder, run, false, false, 3), "checkpoint.every = 0"));
  save(run, 3);
  EXPECT_TRUE(
      says(where_training_is(folder, run, true, false, 3), "step-00000003: free space and run the same command"));
  EXPECT_TRUE(says(where_training_is(folder, run, true, true, 3), "its weights are in "));
}

}  // namespace
}  // namespace zero
