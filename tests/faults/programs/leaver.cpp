// zero_fault_leaver: one rank of a user's own program. It catches and prints exceptions, and ends with status 1.
//
//   zero_fault_leaver TRANSPORT throw|uncaught|code|kill|crash
//
// Rank 1 ends first, in the given way. The other ranks lose it and end because of that. If rank 1 throws, it leaves the
// run, but stays until the launcher has seen the ends of all other ranks. So the first end that is seen is never that
// of the rank at fault.
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "zero/comm/collectives.h"
#include "zero/comm/transport/world.h"

namespace zero {
namespace {

constexpr int kFirst = 1;

void end_as(const std::string& how) {
  if (how == "code") ::_exit(7);
  if (how == "kill") ::raise(SIGKILL);
  if (how == "crash") ::raise(SIGSEGV);
  throw std::runtime_error("the label is none of the classes");
}

void work(const std::string& transport, const std::string& how, std::vector<std::int64_t>& processes, int& rank) {
  World world = World::from_environment({.transport = transport});
  rank = world.rank();
  processes = all_gather_value(world.communicator(), std::int64_t{::getpid()});
  world.communicator().barrier({}).wait();
  if (rank == kFirst) end_as(how);
  for (;;) world.communicator().barrier({}).wait();
}

void await_ends(const std::vector<std::int64_t>& processes) {
  for (const std::int64_t process : processes)
    while (process != ::getpid() && ::kill(static_cast<pid_t>(process), 0) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int run(const std::string& transport, const std::string& how) {
  std::vector<std::int64_t> processes;
  int rank = -1;
  if (how == "uncaught") work(transport, how, processes, rank);
  try {
    work(transport, how, processes, rank);
  } catch (const std::exception& error) {
    fmt::print(stderr, "the program fails: {}\n", error.what());
  }
  if (rank == kFirst) await_ends(processes);
  return 1;
}

}  // namespace
}  // namespace zero

int main(int argc, char** argv) {
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  return argc == 3 ? zero::run(argv[1], argv[2]) : 2;
}
