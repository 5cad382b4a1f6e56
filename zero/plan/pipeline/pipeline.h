// PipelinePlan: the passes of one step over the ranks of a pipeline, as data.
//
//   PipelinePlan plan = build_pipeline(PassOrder::kOneForwardOneBackward, /*ranks=*/2, /*sections=*/2, /*micros=*/4);
//   for (const Pass& pass : plan.passes[0]) ...       // rank 0: F0 F1 B0 F2 B1 F3 B2 B3
//
// A section is a part of the model that one rank computes. A pass is the work of one section for one micro-batch.
// Invariants of every plan: each section has its passes for each micro-batch exactly once; within a section and a kind,
// micro-batches ascend; a rank's passes can run in their order (simulate() refuses any other order). Ascending
// micro-batches are all that the bits of a step need, so all orders give the same bits. Local.
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
  kInputs,    // only gradients of inputs; the section's kWeights for this micro-batch comes later
  kWeights    // only gradients of weights
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
  kZbH1,                   // gradients of weights fill the gaps, memory of 1f1b's first rank
  kZbH2,                   // the same with twice the memory: no gaps if all three passes take equal time
  kZbV,                    // two sections a rank, the last with the first: no gaps with the memory of 1f1b's first rank
  kAuto                    // the shortest of the others that fits (plan_passes.h)
};
inline constexpr std::array<Choice<PassOrder>, 7> kPassOrders{{{"gpipe", PassOrder::kGpipe},
                                                               {"1f1b", PassOrder::kOneForwardOneBackward},
                                                               {"interleaved", PassOrder::kInterleaved},
                                                               {"zb-h1", PassOrder::kZbH1},
                                                               {"zb-h2", PassOrder::kZbH2},
                                                               {"zb-v", PassOrder::kZbV},
                                                               {"auto", PassOrder::kAuto}}};

// What the work of sections is measured in.
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
  CutBy cut = CutBy::kWork;            // what sections have in equal parts
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
//   "parallel.schedule"  kAuto, if no order can use the numbers. `sections`: 0 with kAuto means those of each order.
//   "parallel.depth"     below 0, or above 0 with another order than 1f1b
void require_order(PassOrder order, int ranks, int sections, int micros, int depth = 0);

// Throws what require_order() throws, before anything is built. `order`: not kAuto. `depth`, with 1f1b only: rank s
// begins with (1 + depth) (ranks - 1 - s) forward passes. So a message and its answer have the time of `depth` more
// micro-batches, and each rank holds more of them. 0: the 1f1b of the papers.
PipelinePlan build_pipeline(PassOrder order, int ranks, int sections, int micros, int depth = 0);

// Adds a section 0 on `rank` before all others, whose numbers grow by one. The new section reads weights that another
// section of this rank also uses, such as a tied embedding: the lookup is computed where the head is. Its forward
// passes run (1 + depth) `ranks` micro-batches ahead of the rank's first other section, its backward passes one less
// behind.
PipelinePlan with_lookup(const PipelinePlan& plan, int rank);

// "F0 F1 B0 ..."; with several sections a rank, "F0.2" is micro-batch 0 of section 2. Inputs: I, weights: W.
std::string text_of(const std::vector<Pass>& passes, bool with_sections);
std::string text_of(const Pass& pass);  // "forward pass of micro-batch 0 through section 2"

}  // namespace zero
