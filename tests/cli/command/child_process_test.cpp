#include "app/cli/command/child_process.h"

#include <array>
#include <csignal>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

class ChildProcess : public testing::Test {
 protected:
  void SetUp() override { before_ = std::signal(SIGHUP, SIG_DFL); }  // these tests may run under nohup
  void TearDown() override { std::signal(SIGHUP, before_); }
  ChildEnd run(const std::string& script) const { return run_child({"/bin/sh", "-c", script}, folder_ / "log"); }
  std::string log() const { return read_file(folder_ / "log"); }
  TemporaryFolder folder_;

 private:
  void (*before_)(int) = SIG_DFL;
};

// The child sends the signal to this process, and waits until it receives that signal itself.
TEST_F(ChildProcess, StopSignalsArePassedOn) {
  for (const auto& [name, number] :
       {std::pair{"INT", SIGINT}, std::pair{"TERM", SIGTERM}, std::pair{"HUP", SIGHUP}, std::pair{"USR1", SIGUSR1}}) {
    const std::string trap = std::string("trap 'kill $!; exit 7' ") + name + "; ";
    const ChildEnd end = run(trap + "sleep 60 & kill -" + name + " $PPID; wait; exit 8");
    EXPECT_EQ(end.status, 7) << name;
    EXPECT_EQ(end.signal, number) << name;
  }
}

// As under nohup.
TEST_F(ChildProcess, IgnoredHangupStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  const ChildEnd end = run("kill -HUP $PPID; kill -HUP $$; exit 5");
  EXPECT_EQ(end.status, 5);
  EXPECT_EQ(end.signal, 0);
}

// The child writes a byte into the pipe, which stays open while the child lives.
TEST_F(ChildProcess, EndsWithItsParent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    dup2(ends[1], 9);  // a shell names descriptors by one digit
    run("echo >&9; exec sleep 60");
    _exit(0);
  }
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  pollfd closed{.fd = ends[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&closed, 1, 30000), 1) << "the child still runs";
  close(ends[0]);
}

TEST_F(ChildProcess, LinesFollowATruncatedLog) {
  EXPECT_EQ(run("echo one; : >'" + (folder_ / "log").string() + "'; echo two").status, 0);
  EXPECT_EQ(log(), "two\n");
}

TEST_F(ChildProcess, CaughtSignalStartsNoProgram) {
  {
    const CaughtSignals signals;
    raise(SIGTERM);
    EXPECT_EQ(CaughtSignals::caught(), SIGTERM);
    EXPECT_EQ(run("echo started").signal, SIGTERM);
    EXPECT_EQ(log(), "");
  }
  EXPECT_EQ(run("echo started").signal, 0) << "a later child starts";
  EXPECT_EQ(log(), "started\n");
}

TEST_F(ChildProcess, MissingProgramIsAnError) {
  const std::string said = message_of<IoError>([&] { run_child({"/no/such/program"}, folder_ / "log"); });
  EXPECT_TRUE(says(said, "/no/such/program")) << said;
}

}  // namespace
}  // namespace zero::cli
