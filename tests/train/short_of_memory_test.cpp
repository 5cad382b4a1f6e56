// A run on a device that is short of memory: its error, and the run with the budget that the error names.
#include <regex>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/train/machine/device_memory.h"
#include "tests/support/expect_says.h"
#include "tests/train/small_device.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

class ShortOfMemory : public SmallRunTest {
 protected:
  TrainJob job(std::int64_t device_bytes = 0) {
    TrainJob job = text_job(3);
    job.model.width = 128;
    job.train.batch = 32;
    job.device = "small";
    if (device_bytes > 0) job.attach.device_memory = {.kind = MemoryBudget::Kind::kBytes, .bytes = device_bytes};
    job.run_dir = folder_ / ("run" + std::to_string(device_bytes) + "_" + std::to_string(num_runs_++));
    return job;
  }
  TrainResult run_in(SmallMemory& memory, const TrainJob& job, std::int64_t free_bytes = 0) {
    TrainResult result;
    run_ranks(1, [&](World& ranks) {
      std::ostringstream out;
      TrainSeams seams{.open_device = [&](std::string_view) -> std::unique_ptr<Device> {
                         return std::make_unique<SmallDevice>(memory);
                       },
                       .held_by_torch = [&] { return memory.most_of_torch(); },
                       .learned = learned_};
      if (free_bytes > 0) seams.free_device_bytes = [free_bytes] { return free_bytes; };
      result = train(job, ranks, {.out = out, .style = {}}, seams);
    });
    return result;
  }
  void forget() { std::filesystem::remove(learned_); }

 private:
  const std::filesystem::path learned_ = folder_ / "activations.json";
  int num_runs_ = 0;
};

// The budget in "zero.device_memory 1048576 B (1.00 MiB) or less leaves room for this", or 0 if there is none.
std::int64_t named_budget(const std::string& said) {
  std::smatch found;
  return std::regex_search(said, found, std::regex("zero\\.device_memory ([0-9]+) B")) ? std::stoll(found[1]) : 0;
}

// The run continues with the budget that the error names.
TEST_F(ShortOfMemory, RunNamesHoldersAndBudget) {
  std::int64_t held = 0, all = 0;
  std::vector<float> losses;
  {
    SmallMemory plenty(kPlenty);
    losses = run_in(plenty, job()).report.steps.losses;
    held = plenty.most_of_zero();
    all = plenty.most_in_all();
  }
  ASSERT_GT(held, 2 << 20);
  const std::int64_t there = all - held / 4;  // a quarter of the states does not fit

  std::int64_t budget = 0;
  int num_runs = 0;
  for (bool fits = false; !fits; ++num_runs) {
    forget();
    ASSERT_LT(num_runs, 8) << "budgets must get smaller";
    SmallMemory memory(there);
    try {
      EXPECT_EQ(run_in(memory, job(budget)).report.steps.losses, losses) << "the places of states change no bit";
      fits = true;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "memory");
      const std::string said = error.what();
      // In the first run libtorch finds no room. In later runs a gather may find none. The placement then decides which
      // states are on the device.
      if (num_runs == 0) expect_says(said, {"parameter ", "moment "});
      expect_says(
          said, {num_runs == 0 ? "small is full in step 1: CUDA out of memory. Tried to allocate "
                               : "small is full in step 1: ",
                 "zero.cpp has held ", "libtorch holds " + format_bytes(memory.most_of_torch()) + " for activations"});
      const std::int64_t named = named_budget(said);
      ASSERT_GT(named, 0) << said;
      EXPECT_TRUE(budget == 0 || named < budget) << said;
      budget = named;
    }
  }
  EXPECT_GT(num_runs, 1) << "the memory was short at first";
}

// No budget is given. The next run learns how much memory activations take.
TEST_F(ShortOfMemory, RestartReservesActivationRoom) {
  std::int64_t held = 0, torch = 0;
  std::vector<float> losses;
  {
    SmallMemory plenty(kPlenty);
    losses = run_in(plenty, job()).report.steps.losses;
    held = plenty.most_of_zero();
    torch = plenty.most_of_torch();
  }
  const std::int64_t there = torch + held / 2;  // half of the states do not fit
  ASSERT_LT(held, there / 5 * 4) << "a first run places all states there";
  forget();

  std::vector<std::int64_t> held_there;
  for (bool fits = false; !fits;) {
    ASSERT_LT(held_there.size(), 5U);
    SmallMemory memory(there);
    try {
      EXPECT_EQ(run_in(memory, job(), there).report.steps.losses, losses) << "the places of states change no bit";
      fits = true;
    } catch (const ConfigError& error) {
      expect_says(error.what(), {"small is full in step 1: ", "start the run again, which then leaves ",
                                 " to libtorch (zero.device_memory = auto)"});
    }
    held_there.push_back(memory.most_of_zero());
  }
  ASSERT_GT(held_there.size(), 1U) << "the memory was short at first";
  EXPECT_LT(held_there.back(), held_there.front()) << "fewer states were on the device";

  SmallMemory memory(there);
  EXPECT_EQ(run_in(memory, job(), there).report.steps.losses, losses);
  EXPECT_GE(memory.most_of_zero(), held_there.back()) << "activations get no more than they took";
  EXPECT_LT(memory.most_of_zero(), held_there.front());
}

// A budget that the user gave is not changed.
TEST_F(ShortOfMemory, GivenBudgetLearnsNothing) {
  SmallMemory memory(8 << 20);
  const std::string said = message_of<ConfigError>([&] { run_in(memory, job(7 << 20)); });
  EXPECT_EQ(said.find("start the run again"), std::string::npos) << said;
}

// zero.cpp itself finds no room before it trains.
TEST_F(ShortOfMemory, EarlyShortageIsReportedAsSuch) {
  SmallMemory memory(1 << 20);
  const std::string said = message_of<ConfigError>([&] { run_in(memory, job()); });
  expect_says(said, {"memory = ", "small has ", "use a smaller zero.device_memory"});
  EXPECT_EQ(said.find("is full in step"), std::string::npos) << said;
}

}  // namespace
}  // namespace zero
