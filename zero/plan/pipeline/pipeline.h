// PipelinePlan: the passes of one step over the ranks of a pipeline, as data.
//
//   PipelinePlan plan = build_pipeline(PassOrder::kOneForwardOneBackward, /*ranks=*/2, /*sections=*/2, /*micros=*/4);
//   for (const Pass& pass : plan.passes[0]) ...       // rank 0: F0 F1 B0 F2 B1 F3 B2 B3
//
// A section is a part of the model that one rank computes. A pass is the forward or the backward work of one section
// for one micro-batch. Invariants of every plan, which simulate() checks:
//   - each section has its passes for each micro-batch exactly once
//   - within a section and a kind, micro-batches ascend
//   - no two ranks wait for each other
//
// A gradient is a sum over micro-batches, and each section adds in ascending order. So all orders give the same bits.
// Local. A page says how to add an order: docs/extend/order_of_passes.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/numbers/choice.h"

namespace zero {

enum class PassKind : std::uint8_t {
  kForward,
  kBackward,  // gradients of inputs and of weights
  kInputs,    // gradients of inputs, and those of weights that are no postponed product; kWeights follows later
  kWeights    // the postponed gradients of weights (WaitingProduct in sections.h)
};

struct Pass {
  PassKind kind = PassKind::kForward;
  int micro = 0;
  int section = 0;
  bool operator==(const Pass&) const = default;
};

// Orders of passes by the names of their papers.
enum class PassOrder : std::uint8_t {
  kGpipe,                  // all forward passes, then all backward passes
  kOneForwardOneBackward,  // "1f1b": backward passes as early as possible
  kInterleaved,            // 1f1b with several sections a rank: rank r has the sections r, r + ranks, ...
  kZbH1,                   // ranks make gradients of weights instead of waiting; the memory of 1f1b's first rank
  kZbH2,                   // the same with twice the memory: no rank waits if all three passes take equal time
  kZbV,  // as zb-h2 with the memory of 1f1b's first rank: two sections a rank, the last with the first
  kAuto  // the shortest of the others that fits (plan_passes.h)
};
inline constexpr std::array<Choice<PassOrder>, 7> kPassOrders{{{"gpipe", PassOrder::kGpipe},
                                                               {"1f1b", PassOrder::kOneForwardOneBackward},
                                                               {"interleaved", PassOrder::kInterleaved},
                                                               {"zb-h1", PassOrder::kZbH1},
                                                               {"zb-h2", PassOrder::kZbH2},
                                                               {"zb-v", PassOrder::kZbV},
                                                               {"auto", PassOrder::kAuto}}};

// The measure of a section's work.
enum class CutBy : std::uint8_t {
  kWork,    // an estimate: multiplications and memory accesses
  kSeconds  // measured seconds of the operators
};

// [parallel]: how a model is cut into sections over the ranks of a line.
struct PipelineOptions {
  int pipeline = 1;  // ranks in a line; divides the number of ranks
  int sections = 0;  // parts of the model in a line; 0: as many as the order needs
  PassOrder schedule = PassOrder::kOneForwardOneBackward;
  int depth = 0;                       // of build_pipeline(); with kAuto the run chooses it
  std::int64_t activation_memory = 0;  // most bytes of a rank's activations with kAuto; 0: no limit
  CutBy cut = CutBy::kWork;            // the measure by which a balanced cut makes sections equal
  // First unit, or first parameter, of each section after the first: "h.2". Empty: the cut is balanced.
  std::vector<std::string> first_units{};
  bool operator==(const PipelineOptions&) const = default;
};

std::string_view name_of(PassOrder order);
// Throws ConfigError under "parallel.schedule" for an unknown name.
PassOrder pass_order_of(std::string_view name);
// True if the order has kInputs and kWeights instead of kBackward.
bool splits_backward(PassOrder order);
// Returns the sections of the model that the order needs if the user names none.
int default_sections(PassOrder order, int ranks);

struct PipelinePlan {
  int ranks = 1;
  int micros = 1;
  int depth = 0;
  std::vector<int> rank_of_section;
  std::vector<std::vector<Pass>> passes;  // by rank, in the order in which it runs them

  int num_sections() const { return static_cast<int>(rank_of_section.size()); }
  std::vector<int> sections_of(int rank) const;
};

// Throws ConfigError under
//   "parallel.pipeline"  no rank
//   "parallel.sections"  a number of sections that the order cannot use
//   "train.accumulate"   no micro-batch, or with kInterleaved not a multiple of the ranks
//   "parallel.schedule"  kAuto, if no order can use the numbers
//   "parallel.depth"     below 0, or above 0 with another order than 1f1b
//
// `sections`: 0 with kAuto means that each order has its own default.
void require_order(PassOrder order, int ranks, int sections, int micros, int depth = 0);

// Throws what require_order() throws, before anything is built. `order`: not kAuto. `depth`, with 1f1b only: rank s
// begins with (1 + depth) (ranks - 1 - s) forward passes. So a message and its answer may take the time of `depth` more
// micro-batches, and each rank holds activations of more micro-batches. 0: the 1f1b of the papers.
PipelinePlan build_pipeline(PassOrder order, int ranks, int sections, int micros, int depth = 0);

// Adds a lookup section: section 0 on `rank`. The numbers of all other sections grow by one. The lookup section reads
// weights that another section of this rank also uses, such as a tied embedding. Its forward passes run n = (1 + depth)
// * ranks micro-batches before those of the rank's first other section. Its backward passes run n - 1 micro-batches
// after that section's.
PipelinePlan with_lookup(const PipelinePlan& plan, int rank);

// Returns "F0 F1 B0 ...". With sections, "F0.2" is the forward pass of micro-batch 0 through section 2. Letters: F
// kForward, B kBackward, I kInputs, W kWeights.
std::string text_of(const std::vector<Pass>& passes, bool with_sections);
std::string text_of(const Pass& pass);  // "forward pass of micro-batch 0 through section 2"

}  // namespace zero
