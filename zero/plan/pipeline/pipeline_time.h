// simulate(): the seconds of one step of a pipeline, and the memory of its ranks, in virtual time.
//
//   PipelineTime time = simulate(plan, costs_of({.forward = 1, .inputs = 1, .weights = 1}, plan.num_sections()), {});
//   time.bubble                      // seconds beyond the work of the busiest rank
//   time.ranks[0].in_flight          // most activations at once, in micro-batches of one section
//
// A forward pass waits for the section before it, a backward pass for the section after it and for its own forward
// pass. With whole numbers as costs all results are exact. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/pipeline/pipeline.h"

namespace zero {

struct SectionCosts {
  double forward = 0;                 // seconds of one micro-batch
  double inputs = 0;                  // gradients of inputs
  double weights = 0;                 // gradients of weights; a kBackward pass takes `inputs + weights`
  std::int64_t activation_bytes = 0;  // of one micro-batch, from its forward pass to its last pass
  std::int64_t repeated_bytes = 0;    // more during a backward pass: the second run of an activation checkpoint
};
using PassCosts = std::vector<SectionCosts>;  // by section

PassCosts costs_of(const SectionCosts& each, int sections);

// Seconds of each section's messages between two ranks. Messages from one rank to another follow each other. Empty: the
// messages take no time.
struct PipelineLinks {
  std::vector<double> forward;   // of activations, to the next section
  std::vector<double> backward;  // of gradients, to the section before
};
PipelineLinks links_of(double forward, double backward, int sections);

struct RankTime {
  double start = 0;                   // of its first pass
  double end = 0;                     // of its last pass
  double busy = 0;                    // seconds of its passes
  int in_flight = 0;                  // most micro-batches of a section whose activations it holds at once
  std::int64_t activation_bytes = 0;  // most at once
};

struct PipelineTime {
  double seconds = 0;  // from the first start to the last end
  double bubble = 0;   // `seconds` beyond the busiest rank's `busy`
  std::vector<RankTime> ranks;
};

// Throws InternalError if the plan is not whole: a pass is missing, is there twice, or micro-batches do not ascend.
// Throws ConfigError under "parallel.schedule" if two ranks would wait for each other; the text names both passes.
PipelineTime simulate(const PipelinePlan& plan, const PassCosts& costs, const PipelineLinks& links);

}  // namespace zero
