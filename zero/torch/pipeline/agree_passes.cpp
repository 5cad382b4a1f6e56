#include "zero/torch/pipeline/agree_passes.h"

#include <span>
#include <vector>

#include "zero/comm/collectives.h"
#include "zero/torch/pipeline/forward/operator_timer.h"
#include "zero/torch/pipeline/line_link.h"

namespace zero {
namespace {

void share_seconds(ForwardGraph& graph, Communicator& run) {
  OperatorTimer::fill_gaps(graph);
  std::vector<OperatorSeconds> seconds;
  for (const GraphOperator& op : graph.operators) seconds.push_back(op.seconds);
  broadcast(run, std::as_writable_bytes(std::span(seconds)), 0, {.control = true});
  for (std::size_t op = 0; op < seconds.size(); ++op) graph.operators[op].seconds = seconds[op];
}

}  // namespace

PlannedPasses agree_passes(ForwardGraph& graph, const PipelineOptions& options, int micros, Communicator& run,
                           const PipelineGrid& grid) {
  if (needs_seconds(options)) share_seconds(graph, run);
  const LinkSeconds link = options.schedule == PassOrder::kAuto ? measure_link(run, grid) : LinkSeconds{};
  return plan_passes(graph, options, micros, link);
}

}  // namespace zero
