// simulate(): the seconds of one step of a pipeline, and the memory of its ranks, in virtual time.
//
//   PipelineTime time = simulate(plan, costs_of({.forward = 1, .inputs = 1, .weights = 1}, plan.num_sections()), {});
//   time.bubble                      // seconds beyond the work of the busiest rank
//   time.ranks[0].in_flight          // most open micro-batches at once, counted for each section of rank 0
//
// A micro-batch is open in a section from its forward pass to its last backward pass. A forward pass waits for the
// section before it, a backward pass for the section after it and for its own forward pass. With whole numbers as costs
// all results are exact. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/pipeline/pipeline.h"

namespace zero {

// Bytes that the rank of a section holds for one micro-batch. activation_bytes.h derives them from a model.
struct HeldActivations {
  std::int64_t kept = 0;       // from the forward pass to kBackward or kInputs
  std::int64_t repeated = 0;   // in addition, during kBackward or kInputs: the second run of an activation checkpoint
  std::int64_t waiting = 0;    // from kInputs to kWeights
  std::int64_t gradients = 0;  // in addition, during kWeights
  // A gradient for an earlier section of this rank: held from kBackward or kInputs to a pass of that section.
  struct Given {
    std::int64_t bytes = 0;
    int section = 0;
    bool until_weights = false;  // to its kWeights, or to its kBackward; false: to its kInputs or kBackward
    bool operator==(const Given&) const = default;
  };
  std::vector<Given> given{};
  // A gradient for the rank of an earlier section, sent by kBackward or kInputs. It is held until that rank answers:
  // until a message arrives that the rank sent in or after that section's backward pass of this micro-batch.
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

// The time of each section's messages to another rank. A link sends one message at a time.
struct PipelineLinks {
  std::vector<double> forward;   // seconds in which activations to the next section occupy the link; empty: 0
  std::vector<double> backward;  // seconds in which gradients to the section before occupy the link; empty: 0
  double latency = 0;            // further seconds until the message arrives; the link is free meanwhile
};
PipelineLinks links_of(double forward, double backward, int sections);

struct RankTime {
  double start = 0;                   // of its first pass
  double end = 0;                     // of its last pass
  double busy = 0;                    // seconds of its passes
  int in_flight = 0;                  // most open micro-batches at once, counted for each of its sections
  std::int64_t activation_bytes = 0;  // largest number of bytes at once
};

struct PipelineTime {
  double seconds = 0;  // from the first start to the last end
  double bubble = 0;   // `seconds` beyond the busiest rank's `busy`
  std::vector<RankTime> ranks;
};

// Throws InternalError if a pass is missing or appears twice, or if micro-batches do not ascend. Throws ConfigError
// under "parallel.schedule" if two ranks would wait for each other; the text names both passes.
PipelineTime simulate(const PipelinePlan& plan, const PassCosts& costs, const PipelineLinks& links);

}  // namespace zero
