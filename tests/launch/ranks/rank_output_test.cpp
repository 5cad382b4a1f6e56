#include "app/launch/ranks/rank_output.h"

#include <array>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace zero {
namespace {

using Stream = RankOutput::Stream;
const RankOutput::Time kStart{};

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) ADD_FAILURE() << "no pipe";
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(ends_[0]);
    close_writer();
  }
  int reader() const { return ends_[0]; }
  void say(const std::string& text) {
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_writer() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// The text that is printed while `action` runs.
template <typename Action>
std::string printed(Action action) {
  testing::internal::CaptureStdout();
  action();
  return testing::internal::GetCapturedStdout();
}

// The last partial line is printed at the end.
TEST(RankOutput, GivesWholeLinesThenTheRest) {
  RankOutput output({0, 1}, {true, true});
  Pipe pipe;
  pipe.say("one\ntw");
  EXPECT_EQ(printed([&] { EXPECT_TRUE(output.read_from(1, Stream::kOutput, pipe.reader(), kStart)); }),
            "[rank 1] one\n");
  pipe.say("o");
  pipe.close_writer();
  const std::string rest = printed([&] {
    while (output.read_from(1, Stream::kOutput, pipe.reader(), kStart)) {
    }
  });
  EXPECT_EQ(rest, "[rank 1] two\n");
}

TEST(RankOutput, NothingToReadIsNotEnd) {
  RankOutput output({0}, {true});
  Pipe pipe;
  EXPECT_TRUE(output.read_from(0, Stream::kOutput, pipe.reader(), kStart));
}

// Lines show ranks, not positions in the list.
TEST(RankOutput, NumbersAreRanks) {
  RankOutput output({4, 5}, {true, true});
  Pipe pipe;
  pipe.say("x\n");
  EXPECT_EQ(printed([&] { output.read_from(0, Stream::kOutput, pipe.reader(), kStart); }), "[rank 4] x\n");
}

TEST(RankOutput, HiddenRanksAreRemembered) {
  RankOutput output({0, 1}, {true, false});
  Pipe pipe;
  pipe.say("secret\n");
  EXPECT_EQ(printed([&] { output.read_from(1, Stream::kOutput, pipe.reader(), kStart); }), "");
  EXPECT_EQ(output.last_lines(1), std::vector<std::string>{"secret"});
  EXPECT_TRUE(output.last_lines(0).empty());
}

// The last lines of both streams are kept in one order.
TEST(RankOutput, KeepsLastLinesInOrder) {
  RankOutput output({0}, {false});
  Pipe out, err;
  for (std::size_t i = 0; i < RankOutput::kLastLines; ++i) {
    out.say("out" + std::to_string(i) + "\n");
    output.read_from(0, Stream::kOutput, out.reader(), kStart);
    err.say("err" + std::to_string(i) + "\n");
    output.read_from(0, Stream::kErrors, err.reader(), kStart);
  }
  const auto lines = output.last_lines(0);
  ASSERT_EQ(lines.size(), RankOutput::kLastLines);
  EXPECT_EQ(lines[lines.size() - 2], "out19");
  EXPECT_EQ(lines.back(), "err19");
}

// Errors wait for equal errors of other ranks.
TEST(RankOutput, ErrorsWaitForSameErrors) {
  RankOutput output({0, 1}, {true, true});
  Pipe pipe;
  pipe.say("bad\n");
  testing::internal::CaptureStderr();
  output.read_from(0, Stream::kErrors, pipe.reader(), kStart);
  output.flush(kStart);
  EXPECT_TRUE(output.due().has_value());
  pipe.say("bad\n");
  output.read_from(1, Stream::kErrors, pipe.reader(), kStart);
  output.flush(kStart);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[ranks 0-1] bad\n");
  EXPECT_FALSE(output.due().has_value());
}

}  // namespace
}  // namespace zero
