// A signal during an evaluation: the rest of the evaluation is skipped, and the run continues to its end.
#include <csignal>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "app/train/watch/stop_signal.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

// Raises SIGTERM once the written text contains `cue`.
class SignalOnCue final : public std::stringbuf {
 public:
  explicit SignalOnCue(std::string cue) : cue_(std::move(cue)) {}
  bool raised() const { return raised_; }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::streamsize written = std::stringbuf::xsputn(text, count);
    if (!raised_ && str().find(cue_) != std::string::npos) {
      raised_ = true;
      ::raise(SIGTERM);  // to this thread
    }
    return written;
  }

 private:
  std::string cue_;
  bool raised_ = false;
};

class SignalInEvaluation : public SmallRunTest {
 protected:
  // Rank 0 receives the signal when it has printed `cue`.
  TrainResult run_until(const TrainJob& job, int world, const std::string& cue) {
    TrainResult result;
    SignalOnCue buffer(cue);
    const StopSignal stop;
    run_ranks(world, [&](World& ranks) {
      std::ostringstream nothing;
      std::ostream out(&buffer);
      const bool first = ranks.rank() == 0;
      auto mine = train(job, ranks, {.out = first ? out : nothing, .style = {}, .stop = first ? &stop : nullptr});
      if (first) result = std::move(mine);
    });
    EXPECT_TRUE(buffer.raised()) << buffer.str();
    out_ = buffer.str();
    return result;
  }
};

// The run skips the evaluation and ends.
TEST_F(SignalInEvaluation, LastStepsSignalWritesWeights) {
  const std::string expected = run(text_job(5), 2).report.parameters_sha256;
  TrainJob again = text_job(5);
  again.overwrite = true;
  const TrainResult result = run_until(again, 2, "step 5/5");
  EXPECT_EQ(result.stop_signal, 0) << "training had ended";
  EXPECT_EQ(result.report.parameters_sha256, expected);
  EXPECT_FALSE(result.report.validation.present);
  EXPECT_NE(out_.find("signal 15: the evaluation after step 5 is left out"), std::string::npos) << out_;
  EXPECT_NE(out_.find("done: "), std::string::npos) << out_;
  EXPECT_EQ(out_.find("val_loss"), std::string::npos) << out_;
}

TEST_F(SignalInEvaluation, TrainingSignalStopsAfterNextStep) {
  TrainJob job = text_job(40);
  job.train.eval_every = 5;
  job.train.log_every = 5;
  job.checkpoint = {.every_steps = 100, .keep = 1};
  const TrainResult result = run_until(job, 2, "step 5/40");
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_TRUE(result.saved);
  EXPECT_NE(out_.find("signal 15: the evaluation after step 5 is left out"), std::string::npos) << out_;
  EXPECT_NE(out_.find("the same command continues"), std::string::npos) << out_;
}

}  // namespace
}  // namespace zero
