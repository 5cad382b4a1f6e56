// zero_fault_worker: one rank of the fault tests. It runs collectives without end, over windows and over the heap,
// without torch.
//
//   zero_fault_worker [--timeout MILLISECONDS] [--mismatch RANK] [--outlive-sigterm]
//
// It prints "rank R works" after its first collective. If a peer fails, it prints the error on standard error and ends
// with status 3. --mismatch: the given rank issues a barrier while the others gather. --outlive-sigterm: the rank
// continues after SIGTERM, like a rank of `zero train` that finishes its step.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <signal.h>

#include "zero/base/error/error.h"
#include "zero/comm/rendezvous/detect_ranks.h"
#include "zero/comm/transport/open_transport.h"

namespace zero {
namespace {

constexpr std::size_t kWindowBytes = 192 << 10;  // a block of each rank, read in place
constexpr std::size_t kHeapBytes = 24 << 10;     // copied first
constexpr int kMismatchRound = 10;

struct WorkerOptions {
  std::chrono::milliseconds timeout{60'000};
  int mismatched_rank = -1;
  bool outlive_sigterm = false;
};

WorkerOptions parse(const std::vector<std::string>& arguments) {
  WorkerOptions options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--timeout") {
      options.timeout = std::chrono::milliseconds(std::stoi(arguments.at(++i)));
    } else if (arguments[i] == "--mismatch") {
      options.mismatched_rank = std::stoi(arguments.at(++i));
    } else if (arguments[i] == "--outlive-sigterm") {
      options.outlive_sigterm = true;
    } else {
      throw std::invalid_argument(arguments[i]);
    }
  }
  return options;
}

void reduce_scatter(Communicator& comm, std::span<const std::byte> in, std::span<std::byte> out, int unit) {
  comm.reduce_scatter({.in = in, .out = out.first(in.size() / comm.world())}, {.unit = unit}).wait();
}

void work(Communicator& comm, const WorkerOptions& options) {
  const std::size_t world = comm.world();
  Allocation window = comm.allocate(kWindowBytes * world), sum = comm.allocate(kWindowBytes);
  std::vector<std::byte> heap(kHeapBytes * world), gathered(kWindowBytes * world);
  for (int round = 0;; ++round) {
    if (round == kMismatchRound && comm.rank() == options.mismatched_rank) comm.barrier({}).wait();
    comm.all_gather(sum.bytes(), gathered, {.unit = 1}).wait();
    if (round == 0) {
      fmt::print("rank {} works\n", comm.rank());
      std::fflush(stdout);
    }
    comm.all_gather(std::span(heap).first(kHeapBytes), std::span(gathered).first(heap.size()), {.unit = 2}).wait();
    comm.drain();
    reduce_scatter(comm, window.bytes(), sum.bytes(), 1);
    reduce_scatter(comm, heap, gathered, 2);
    comm.drain();
  }
}

int run(const std::vector<std::string>& arguments) {
  try {
    const WorkerOptions options = parse(arguments);
    if (options.outlive_sigterm) ::signal(SIGTERM, SIG_IGN);
    const RankEnvironment ranks = detect_ranks({}, [](const char* name) { return std::getenv(name); });
    work(*open_transport("shared_memory", ranks, options.timeout), options);
  } catch (const CommError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "not a CommError: {}\n", error.what());
  }
  return 1;
}

}  // namespace
}  // namespace zero

int main(int argc, char** argv) {
  return zero::run({argv + 1, argv + argc});
}
