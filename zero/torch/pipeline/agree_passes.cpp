#include "zero/torch/pipeline/agree_passes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "zero/base/process/clock.h"
#include "zero/comm/collectives.h"
#include "zero/torch/pipeline/forward/operator_timer.h"

namespace zero {
namespace {

void share_seconds(ForwardGraph& graph, Communicator& run) {
  OperatorTimer::fill_gaps(graph);
  std::vector<OperatorSeconds> seconds;
  for (const GraphOperator& op : graph.operators) seconds.push_back(op.seconds);
  broadcast(run, std::as_writable_bytes(std::span(seconds)), 0, {.control = true});
  for (std::size_t op = 0; op < seconds.size(); ++op) graph.operators[op].seconds = seconds[op];
}

constexpr std::size_t kSmallBytes = std::size_t{1} << 10, kLargeBytes = std::size_t{1} << 20;
constexpr int kRuns = 3;
constexpr double kNanosecond = 1e-9;

// Returns the shortest time of a message in seconds: half the time of a message and its answer. `begins`: this rank
// sends first, and `peer` answers.
double message_seconds(Communicator& run, int peer, bool begins, std::size_t bytes) {
  std::vector<std::byte> sent(bytes), received(bytes);
  const auto send = [&] { run.send(sent, peer, {.control = true}).wait(); };
  const auto receive = [&] { run.receive(received, peer, {.control = true}).wait(); };
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    const double begin = monotonic_seconds();
    if (begins) {
      send();
      receive();
    } else {
      receive();
      send();
    }
    shortest = std::min(shortest, (monotonic_seconds() - begin) / 2);
  }
  run.drain();
  return shortest;
}

}  // namespace

PlannedPasses agree_passes(ForwardGraph& graph, const PipelineOptions& options, int micros, Communicator& run,
                           const PipelineGrid& grid) {
  if (needs_seconds(options)) share_seconds(graph, run);
  const LinkSeconds link = options.schedule == PassOrder::kAuto ? measure_link(run, grid) : LinkSeconds{};
  return plan_passes(graph, options, micros, link);
}

LinkSeconds measure_link(Communicator& run, const PipelineGrid& grid) {
  double small = 0, large = 0;
  const int links = grid.pipeline == 2 ? 1 : grid.pipeline;  // the last position also sends to the first
  for (int at = 0; at < links && grid.pipeline > 1; ++at) {
    const int next = (at + 1) % grid.pipeline;
    if (grid.position != at && grid.position != next) continue;
    const bool begins = grid.position == at;
    const int peer = grid.rank_at(begins ? next : at);
    const double of_small = message_seconds(run, peer, begins, kSmallBytes);
    const double of_large = message_seconds(run, peer, begins, kLargeBytes);
    if (!begins) continue;  // the peer's time counts: that of this rank may include a wait for the peer
    small = of_small;
    large = of_large;
  }
  const auto slowest = [&](double seconds) {
    return static_cast<double>(all_reduce_max(run, std::llround(seconds / kNanosecond))) * kNanosecond;
  };
  LinkSeconds link{.latency = slowest(small), .per_byte = 0};
  link.per_byte = std::max(0.0, slowest(large) - link.latency) / static_cast<double>(kLargeBytes - kSmallBytes);
  return link;
}

}  // namespace zero
