#include "tests/world/world_runner.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/comm/board/in_process.h"
#include "zero/comm/transport/open_transport.h"
#include "zero/comm/transport/record_flight.h"

#include "tests/support/unclaimed_port.h"

// Gloo and Open MPI are not instrumented. Without this option, ThreadSanitizer reports races inside them.
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;

std::string run_rank(std::unique_ptr<Communicator> comm, const std::function<void(Communicator&)>& body) {
  try {
    body(*comm);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<std::string> run_threads(const World& world, const std::function<void(Communicator&)>& body) {
  auto comms = make_in_process(world.size, world.timeout);
  // The ring is so short that it wraps in every test.
  if (world.transport == "recorded") {
    for (int rank = 0; rank < world.size; ++rank) {
      comms[rank] = std::make_unique<RecordedCommunicator>(std::move(comms[rank]), flight_memory(5),
                                                           FlightIdentity{.rank = rank, .world = world.size});
    }
  }
  std::vector<std::string> ends(world.size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world.size; ++rank) {
    threads.emplace_back([&, rank] { ends[rank] = run_rank(std::move(comms[rank]), body); });
  }
  threads.clear();
  return ends;
}

struct Child {
  pid_t process = -1;
  int pipe = -1;
  std::string end = "did not end";
  bool ended = false;
};

[[noreturn]] void run_child(int pipe, const std::function<std::string()>& rank) {
  std::string end = rank();
  if (::testing::Test::HasFailure() && end.empty()) end = "failed expectations";
  if (write(pipe, end.data(), end.size()) != static_cast<ssize_t>(end.size())) _exit(1);
  std::fflush(nullptr);
  _exit(0);
}

void collect(Child& child, int status) {
  child.ended = true;
  char text[4096];
  const ssize_t bytes = read(child.pipe, text, sizeof text);
  child.end.assign(text, bytes > 0 ? bytes : 0);
  if (WIFSIGNALED(status)) child.end = fmt::format("signal {}", WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) child.end += fmt::format("exit {}", WEXITSTATUS(status));
  close(child.pipe);
}

Communicator& launched_communicator(std::chrono::milliseconds timeout) {
  static const auto comm = open_transport(
      launched_transport(), detect_ranks({}, [](const char* name) { return std::getenv(name); }), timeout);
  return *comm;
}

std::vector<std::string> run_launched(const World& world, const std::function<void(Communicator&)>& body) {
  std::vector<std::string> ends(world.size);
  try {
    Communicator& comm = launched_communicator(world.timeout);
    if (comm.world() != world.size) return ends;
    body(comm);
  } catch (const std::exception& error) {
    ends.assign(world.size, error.what());
  }
  return ends;
}

std::vector<std::string> run_processes(const World& world, const std::function<void(Communicator&)>& body) {
  const std::string run_id = unique_run_id();
  const int port = world.transport == "shared_memory" ? 0 : free_port();
  std::vector<Child> children(world.size);
  std::fflush(nullptr);
  for (int rank = 0; rank < world.size; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    children[rank].process = fork();
    if (children[rank].process == 0) {
      run_child(ends[1], [&]() -> std::string {
        try {
          RankEnvironment ranks;
          ranks.rank = ranks.local_rank = rank;
          ranks.world = ranks.local_world = world.size;
          ranks.run_id = run_id;
          ranks.master_port = port;
          return run_rank(open_transport(world.transport, ranks, world.timeout), body);
        } catch (const std::exception& error) {
          return error.what();
        }
      });
    }
    close(ends[1]);
    children[rank].pipe = ends[0];
  }
  int left = world.size;
  auto deadline = Clock::now() + world.patience + world.timeout;
  while (left > 0 && Clock::now() < deadline) {
    bool progress = false;
    for (Child& child : children) {
      int status = 0;
      if (child.ended || waitpid(child.process, &status, WNOHANG) != child.process) continue;
      collect(child, status);
      progress = true;
      --left;
      deadline = std::min(deadline, Clock::now() + world.patience);
    }
    if (!progress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<std::string> ends;
  for (Child& child : children) {
    if (!child.ended) {
      kill(child.process, SIGKILL);
      waitpid(child.process, nullptr, 0);
      close(child.pipe);
    }
    ends.push_back(child.end);
  }
  return ends;
}

}  // namespace

int free_port() {
  return unclaimed_port();
}

std::string unique_run_id() {
  static std::atomic<int> count = 0;
  return fmt::format("test-{}-{}", getpid(), count++);
}

std::string launched_transport() {
  const char* transport = std::getenv("ZERO_WORLD_TRANSPORT");
  return transport == nullptr ? "" : transport;
}

int launched_world() {
  return detect_ranks({}, [](const char* name) { return std::getenv(name); }).world;
}

namespace {

// Whether all ranks have met. A busy machine may not start a rank within a test's short timeout.
bool have_met(const std::vector<std::string>& ends) {
  return std::ranges::none_of(
      ends, [](const std::string& end) { return end.find("rendezvous of the ranks") != std::string::npos; });
}

}  // namespace

std::vector<std::string> run_world(const World& world, const std::function<void(Communicator&)>& body) {
  if (!launched_transport().empty()) return run_launched(world, body);
  const bool threads = world.transport == "in_process" || world.transport == "recorded";
  if (threads) return run_threads(world, body);
  std::vector<std::string> ends = run_processes(world, body);
  for (int tries = 1; tries < 10 && !have_met(ends); ++tries) ends = run_processes(world, body);
  return ends;
}

void expect_world(const World& world, const std::function<void(Communicator&)>& body) {
  const auto ends = run_world(world, body);
  for (int rank = 0; rank < world.size; ++rank) EXPECT_EQ(ends[rank], "") << "rank " << rank;
}

}  // namespace zero
