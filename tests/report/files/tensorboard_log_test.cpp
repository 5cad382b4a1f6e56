#include "app/report/files/tensorboard_log.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/report/event_reader.h"
#include "tests/support/command_end.h"
#include "tests/support/python_with.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

StepMetrics step_of(std::int64_t number, double loss) {
  StepMetrics m{.step = number, .time = 1700000000.25, .loss = loss, .lr = 0.5, .grad_norm = 1.25};
  m.seconds = 0.5;
  m.tokens = 768;
  m.memory.device[MemoryTag::kParameter] = 100;
  m.memory.device[MemoryTag::kMoment] = 200;
  m.memory.host[MemoryTag::kMoment] = 40;
  m.memory.disk[MemoryTag::kMoment] = 5;
  return m;
}

TEST(TensorboardLogTest, StepHasScalarPerFigure) {
  const TemporaryFolder folder;
  TensorboardLog log(folder.path(), {});
  StepMetrics step = step_of(7, 2.5);
  log.add(step);
  step.loss_scale = 65536;
  step.has_tokens = false;
  log.add(step);
  log.flush();
  const auto events = read_events(event_files_in(folder.path()).front());
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[2].time, 1700000000.25);
  EXPECT_EQ(events[2].step, 7);
  const std::map<std::string, float> expected{{"train/loss", 2.5F},         {"train/lr", 0.5F},
                                              {"train/grad_norm", 1.25F},   {"speed/tokens_per_second", 1536},
                                              {"speed/step_seconds", 0.5F}, {"memory/device_bytes", 300},
                                              {"memory/host_bytes", 40},    {"memory/disk_bytes", 5}};
  EXPECT_EQ(events[2].scalars, expected);
  EXPECT_EQ(events[3].scalars.at("train/loss_scale"), 65536);
  EXPECT_EQ(events[3].scalars.at("speed/rows_per_second"), 1536);
}

// Accuracy for a classifier, perplexity for a language model.
TEST(TensorboardLogTest, EvaluationAddsAccuracyAndPerplexity) {
  const TemporaryFolder folder;
  TensorboardLog log(folder.path(), {});
  log.add(EvaluationMetrics{.step = 8, .val_loss = 3});
  log.add(EvaluationMetrics{.step = 9, .val_loss = 4, .accuracy = 0.75});
  log.add(EvaluationMetrics{.step = 10, .val_loss = 0, .perplexity = 1});
  log.flush();
  const auto events = read_events(event_files_in(folder.path()).front());
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"validation/val_loss", 3.0F}}));
  EXPECT_EQ(events[4].scalars.at("validation/val_perplexity"), 1);
  EXPECT_EQ(events[3].scalars.at("validation/val_accuracy"), 0.75F);
}

// The session starts after the checkpoint.
TEST(TensorboardLogTest, ResumedRunStartsNewSessionFile) {
  const TemporaryFolder folder;
  { const TensorboardLog log(folder.path(), {}); }
  { const TensorboardLog log(folder.path(), {.after_step = 500, .config = "[run]\ndir = \"a\""}); }
  const auto files = event_files_in(folder.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_TRUE(read_events(files[0])[1].starts) << "readers count only the second start";
  EXPECT_EQ(read_events(files[0])[1].step, 1);
  const auto events = read_events(files[1]);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_TRUE(events[1].starts);
  EXPECT_EQ(events[1].step, 501);
  EXPECT_EQ(events[2].texts.at("configuration"), "    [run]\n    dir = \"a\"");
}

TEST(TensorboardLogTest, KeepsNonFiniteLoss) {
  const TemporaryFolder folder;
  TensorboardLog log(folder.path(), {});
  log.add(step_of(1, std::numeric_limits<double>::quiet_NaN()));
  log.flush();
  EXPECT_TRUE(std::isnan(read_events(event_files_in(folder.path()).front())[2].scalars.at("train/loss")));
}

// TensorBoard's own reader reads every step once, also after a rewind and a restart.
TEST(TensorboardLogTest, TensorBoardReadsStepsOnce) {
  const auto python = python_with("tensorboard");
  if (!python) GTEST_SKIP() << no_python_with("tensorboard");
  const TemporaryFolder folder;
  {
    TensorboardLog log(folder / "events", {.config = "[train]\nsteps = 6\n"});
    for (int step = 1; step <= 4; ++step) log.add(step_of(step, step));
    log.add(EvaluationMetrics{.step = 4, .val_loss = 44});
    log.take_back(2);
    for (int step = 3; step <= 5; ++step) log.add(step_of(step, 10 + step));
    log.flush();
  }
  {
    TensorboardLog log(folder / "events", {.after_step = 4});
    for (int step = 5; step <= 6; ++step) log.add(step_of(step, 20 + step));
    log.flush();
  }
  const auto script = folder.write("read.py", R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0, 'tensors': 0})
events.Reload()
found = [(e.step, e.value) for e in events.Scalars('train/loss')]
assert found == [(1, 1), (2, 2), (3, 13), (4, 14), (5, 25), (6, 26)], found
assert events.Scalars('validation/val_loss') == [], 'the rewind took it back'
assert events.Scalars('memory/host_bytes')[0].value == 40
assert events.Scalars('train/lr')[0].wall_time == 1700000000.25
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as Served
served = Served(sys.argv[1], size_guidance={'tensors': 0})
served.Reload()
assert [e.step for e in served.Tensors('train/loss')] == [1, 2, 3, 4, 5, 6]
text = events.Tensors('configuration')[0].tensor_proto.string_val[0].decode()
assert text == '    [train]\n    steps = 6\n    ', repr(text)
)");
  const CommandEnd end =
      end_of_command(fmt::format("{} '{}' '{}' 2>&1", *python, script.string(), (folder / "events").string()));
  EXPECT_EQ(end.status, 0) << end.text;
}

}  // namespace
}  // namespace zero
