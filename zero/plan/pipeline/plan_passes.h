// plan_passes(): the sections of a model, the order of passes and the time of a step, from the graph of a forward pass.
//
//   const PlannedPasses planned = plan_passes(graph, {.pipeline = 2, .schedule = PassOrder::kAuto}, /*micros=*/8, {});
//   planned.order              // PassOrder::kZbH1
//   order_table(planned)       // each order with its seconds, bubble and memory
//
// With PassOrder::kAuto every order is simulated with its own cut. The shortest order is chosen whose activations
// fit into `activation_memory`. Orders within 1 % of the shortest count as equal, and the one with the smallest
// activations is chosen. 1f1b is also simulated with depths 1, 2, 4 and so on, until a depth is not
// shorter by more than 1 %. The result depends only on the arguments, so ranks with equal arguments choose the same
// order. Local, values only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/pipeline/pipeline.h"
#include "zero/plan/pipeline/pipeline_time.h"
#include "zero/plan/pipeline/sections.h"

namespace zero {

// A message takes `latency + bytes * per_byte` seconds, and occupies the link for `bytes * per_byte` of these.
struct LinkSeconds {
  double latency = 0;
  double per_byte = 0;
};

// An order that kAuto considered.
struct OrderTrial {
  PassOrder order = PassOrder::kGpipe;
  int depth = 0;        // of build_pipeline()
  int sections = 0;     // without the lookup section
  std::string skipped;  // the reason; empty: it may be chosen
  PipelineTime time;
  std::int64_t activation_bytes = 0;  // of the rank that holds most
};

struct PlannedPasses {
  PassOrder order = PassOrder::kOneForwardOneBackward;
  Sections sections;
  PipelinePlan plan;  // with the lookups of tied parameters
  PipelineTime time;
  double fill = 0;                 // time of one micro-batch's forward pass through all sections, with its messages
  bool is_measured = false;        // true: times are in seconds; false: in shares of the model's work
  std::vector<OrderTrial> trials;  // in the order of kPassOrders; empty unless the order was kAuto
};

// Bytes that each section sends to other ranks for one micro-batch. A rank with several users receives a value once.
struct CrossingBytes {
  std::vector<std::int64_t> forward;   // by section: values
  std::vector<std::int64_t> backward;  // by section: gradients
};
CrossingBytes crossing_bytes(const ForwardGraph& graph, const Sections& sections,
                             const std::vector<int>& rank_of_section);

// Returns the measured seconds by section. If no operator was measured, each of an operator's forward pass, gradients
// of inputs and gradients of weights costs its share of the model's work. The operators of an activation checkpoint
// also count in the backward pass. `split`: the order has passes of weights. Only the gradients of
// postponed_products() are then in `weights`; the pass of inputs makes all others. `held` stays empty.
PassCosts costs_of_sections(const ForwardGraph& graph, const Sections& sections, bool split);

// Returns whether the operators of the graph must be measured.
inline bool needs_seconds(const PipelineOptions& options) {
  return options.schedule == PassOrder::kAuto || (options.cut == CutBy::kSeconds && options.first_units.empty());
}

// Returns the sections that the user asks for; 0: as many as the order needs.
int asked_sections(const PipelineOptions& options);
// Throws ConfigError under the key of a number that no pipeline can have, also without a pipeline: "parallel.sections",
// "parallel.depth" or "parallel.activation_memory".
void require_pipeline_numbers(const PipelineOptions& options);
// Throws what require_pipeline_numbers() and require_order() throw for these options, and ConfigError under
// "parallel.cut" if the number of named units does not fit.
void require_pipeline(const PipelineOptions& options, int micros);

// Throws what require_pipeline() and cut_sections(), or cut_at_units(), throw. With kAuto it throws ConfigError under
// "parallel.schedule" if the model can be cut for no order, and under "parallel.activation_memory" if no order's
// activations fit.
PlannedPasses plan_passes(const ForwardGraph& graph, const PipelineOptions& options, int micros,
                          const LinkSeconds& link);

// "1f1b", or "1f1b depth 2".
std::string name_of(PassOrder order, int depth);

// Returns a table with one line for each order, which marks the chosen one. Empty unless the order was kAuto.
std::string order_table(const PlannedPasses& planned);

// Returns sentences for the user. They warn of fewer micro-batches than positions, and of a transport's `timeout` of
// less than four times `fill`. With such a timeout, a rank that waits for the first micro-batch could count as a rank
// that hangs.
std::vector<std::string> notes_on(const PlannedPasses& planned, std::chrono::milliseconds timeout);

}  // namespace zero
