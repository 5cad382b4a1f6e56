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

// Bytes that the rank of a section holds for one micro-batch. activation_bytes.h derives them from a model.
struct HeldActivations {
  std::int64_t kept = 0;       // from the forward pass to kBackward or kInputs
  std::int64_t repeated = 0;   // more during kBackward or kInputs, such as the second run of an activation checkpoint
  std::int64_t waiting = 0;    // from kInputs to kWeights
  std::int64_t gradients = 0;  // more during kWeights
  // From kBackward or kInputs to a pass of an earlier section of this rank.
  struct Given {
    std::int64_t bytes = 0;
    int section = 0;
    bool until_weights = false;  // to its kWeights; false: to its kBackward or kInputs
    bool operator==(const Given&) const = default;
  };
  std::vector<Given> given{};
  // Sent by kBackward or kInputs to the rank of an earlier section, and held until that rank answers: until a message
  // arrives that it sent in this pass of the earlier section or later.
  struct Sent {
    std::int64_t bytes = 0;
    int section = 0;
    bool operator==(const Sent&) const = default;
  };
  std::vector<Sent> sent{};
  // Sections of other ranks from which a forward pass, or a backward pass, receives messages.
  std::vector<int> values_from{}, gradients_from{};
  bool operator==(const HeldActivations&) const = default;
};

struct SectionCosts {
  double forward = 0;      // seconds of one micro-batch
  double inputs = 0;       // gradients of inputs
  double weights = 0;      // gradients of weights; a kBackward pass takes `inputs + weights`
  HeldActivations held{};  // of one micro-batch
};
using PassCosts = std::vector<SectionCosts>;  // by section

PassCosts costs_of(const SectionCosts& each, int sections);

// Seconds for which each section's messages between two ranks occupy the link. Messages from one rank to another follow
// each other. Empty: none.
struct PipelineLinks {
  std::vector<double> forward;   // of activations, to the next section
  std::vector<double> backward;  // of gradients, to the section before
  double latency = 0;            // from then until the message is there; the link is free
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
