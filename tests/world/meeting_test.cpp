// Ranks that meet over gloo, while a rank dies. No launcher ends the others.
#include <chrono>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/files/file.h"
#include "zero/comm/rendezvous/handshake.h"
#include "zero/comm/rendezvous/job_token.h"
#include "zero/comm/rendezvous/store_messages.h"
#include "zero/comm/rendezvous/tcp_sockets.h"

#include "tests/support/expect_contains.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

class Meeting : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!launched_transport().empty()) GTEST_SKIP() << "this test starts its own ranks";
    for (const TransportStatus& status : transport_statuses())
      if (status.name == "gloo" && !status.available) GTEST_SKIP() << status.why;
    ranks_.world = ranks_.local_world = 3;
    ranks_.run_id = unique_run_id();
    ranks_.master_port = free_port();
  }

  // A process of this rank, and the text of its error.
  struct Process {
    pid_t id = -1;
    FileDescriptor said;
    std::string ended() const {
      waitpid(id, nullptr, 0);
      char text[4096];
      const ssize_t bytes = read(said.get(), text, sizeof text);
      return {text, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
    }
  };
  Process start(int rank) {
    int pipe[2];
    if (::pipe(pipe) != 0) throw std::runtime_error("pipe");
    std::fflush(nullptr);
    Process process{.id = fork(), .said = FileDescriptor(pipe[0])};
    const FileDescriptor out(pipe[1]);
    if (process.id != 0) return process;
    ranks_.rank = ranks_.local_rank = rank;
    const std::string said = meet();
    _exit(write(out.get(), said.data(), said.size()) == std::ssize(said) ? 0 : 1);
  }

  // Connects as the last rank, until rank 0 has accepted.
  FileDescriptor knock() {
    const std::string secret = meeting::rendezvous_secret(rendezvous_token(ranks_, std::getenv), ranks_.run_id);
    for (;; std::this_thread::sleep_for(milliseconds(1))) {
      std::string why;
      FileDescriptor door(meeting::connect_once("127.0.0.1", ranks_.master_port, minutes(1), why));
      if (door.get() < 0) continue;  // rank 0 does not listen yet
      const auto greeting = meeting::greet_server(door.get(), ranks_.run_id, secret, minutes(1));
      EXPECT_EQ(greeting.end, meeting::Greeting::End::kIn);
      return door;
    }
  }

 private:
  std::string meet() try {
    open_transport("gloo", ranks_, minutes(30));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }

  RankEnvironment ranks_;
};

// The other ranks do not wait for the timeout, which is half an hour here.
TEST_F(Meeting, DyingRankIsNamedByAll) {
  const Process first = start(0), second = start(1);
  {
    const FileDescriptor door = knock();
    EXPECT_TRUE(meeting::write_message(door.get(), {.operation = meeting::Operation::kHere, .key = "2", .value = {}}));
    for (const char* other : {"0", "1"}) {  // wait until that rank has published its address
      meeting::Message where;
      EXPECT_TRUE(
          meeting::write_message(door.get(), {.operation = meeting::Operation::kGet, .key = other, .value = {}}));
      EXPECT_EQ(meeting::read_message(door.get(), where, minutes(1)), meeting::Read::kDone);
    }
  }
  for (const Process* process : {&first, &second})
    EXPECT_EQ(process->ended(), "rank 2: opening gloo: its process ended or left while the ranks met");
}

}  // namespace
}  // namespace zero
