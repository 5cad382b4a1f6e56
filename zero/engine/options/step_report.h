// StepReport, EngineReport: the reports of an engine; StepRates, StepLimits: rates and limits of a step. Values only.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/numbers/tier.h"
#include "zero/engine/options/loss_scale.h"
#include "zero/engine/wire/sent_by_codec.h"
#include "zero/memory/account/ledger.h"
#include "zero/memory/disk/traffic.h"
#include "zero/plan/model/step_model.h"

namespace zero {

// Learning rates of one step, the same on every rank.
struct StepRates {
  double lr = 0;
  // Rates of AttachOptions::groups, in their order; empty: each group has lr * lr_scale. With Muon they are rates of
  // matrices: other parameters of a group have rate * adamw.lr / lr of the options (adamw.lr 0: the rate itself).
  std::vector<double> by_group{};
  // Weight decays of the same groups, for all their parameters; empty: those of the options.
  std::vector<double> decay_by_group{};
};
std::uint64_t hash_of(const StepRates& rates);

// If the mean loss over ranks, or the norm of the gradient, exceeds its limit, the step updates nothing on any rank.
// Rank 0's limits count.
struct StepLimits {
  std::optional<double> loss;  // this rank's; if every rank gives a loss, their mean must also be finite
  // With leaves, instead of `loss`: this rank's losses by micro-batch, idle ones included. The step's loss is then the
  // mean over leaves, summed in their tree: the same in every world.
  std::vector<double> leaf_losses{};
  double max_loss = std::numeric_limits<double>::infinity();
  double max_grad_norm = std::numeric_limits<double>::infinity();
  // With `accumulate`: allows a step with fewer micro-batches, 1 to `accumulate`, as at an epoch's end. Must be the
  // same on every rank. With `average_micro_batches` the gradient is the mean over that number, else their sum.
  bool fewer_micro_batches = false;
};

// kOverflow: a gradient is not finite, and the dynamic loss scale can still fall, so the next step has a lower scale.
enum class SkipReason : std::uint8_t { kNone, kOverflow, kNonFinite, kLossSpike, kNormSpike };

std::string_view name_of(SkipReason reason);  // "", "overflow", "not finite", "loss spike", "norm spike"

// The result of one step.
struct StepReport {
  std::int64_t step = 0;  // updates so far, including this step; skipped steps do not count
  // Norm of the average over ranks (and micro-batches), before clipping. If copies train apart, each clips by the norm
  // of its own gradient, and this is the mean of those norms.
  double grad_norm = 0;
  bool skipped = false;                   // nothing was updated
  std::string bad_parameter;              // the first parameter whose gradient is not finite
  SkipReason reason = SkipReason::kNone;  // of a skipped step: the first true reason, in the order of SkipReason
  double loss = std::numeric_limits<double>::quiet_NaN();  // mean over ranks; NaN if a rank gave no loss
  std::optional<double> loss_scale;                        // of this step's losses; empty: no scale
  bool merged = false;                                     // copies that train apart: the step ended with an outer step
};

// The counters of an engine. Its next step depends only on these and on the states of ShardedState.
struct EngineProgress {
  std::int64_t steps = 0;  // updates
  std::int64_t skipped = 0;
  std::int64_t skipped_in_a_row = 0;
  std::int64_t delayed = 0;
  LossScale::State loss_scale;        // value 0: no dynamic scale
  std::vector<std::int64_t> updates;  // by parameter: a step in which no rank has its gradient does not update it
  bool operator==(const EngineProgress&) const = default;
};

// Seconds by kind of work, since the last take_work_seconds(). `wait`: for other ranks, also included in the other
// fields.
struct WorkSeconds {
  double gather = 0;
  double reduce = 0;
  double update = 0;
  double wait = 0;
};

// The passes of a step, timed by a device with its own memory, including their waits for gathers and sums.
// `waited_seconds`: these waits, in both passes.
struct DevicePasses {
  double forward_seconds = 0;
  double backward_seconds = 0;
  double waited_seconds = 0;
};

// The step after which states are placed again. The first step records the trace, and the second is the first that
// follows the schedule.
constexpr std::int64_t kProfileStep = 3;

// Bytes between copies of the model, in a step of this rank; part of all bytes that it sends.
struct CopiesReport {
  int number = 1;  // number of copies
  std::int64_t sent_bytes_per_step = 0;
  std::int64_t planned_sent_bytes = 0;
  double sent_formula_bytes = 0;  // mean over the copies
};

// Secondary groups (zero/plan/units/secondary.h), in a step of this rank. `sent_bytes_per_step`: gathers of parts
// within the group. `sent_between_groups`: bytes to ranks outside it. Both are part of all bytes that it sends.
struct SecondaryReport {
  int group = 0;  // ranks; 0: none
  std::int64_t sent_bytes_per_step = 0;
  std::int64_t planned_sent_bytes = 0;
  std::int64_t sent_between_groups = 0;
  std::int64_t planned_sent_between_groups = 0;
};

// Bytes that a rank has sent to other ranks.
struct SentBytes {
  std::int64_t total = 0;
  std::int64_t between_copies = 0;  // part of `total`
  SentByCodec by_codec{};           // all of `total`
  SentBytes& operator+=(const SentBytes& more) {
    total += more.total;
    between_copies += more.between_copies;
    by_codec += more.by_codec;
    return *this;
  }
  SentBytes operator-(const SentBytes& before) const {
    return {total - before.total, between_copies - before.between_copies, by_codec - before.by_codec};
  }
};

// Copies that train apart: bytes that a rank sends in an outer step. They are counted in the last outer step, planned,
// and by the formula for bytes between copies.
struct OuterReport {
  int local_steps = 0;        // steps between two outer steps of a unit; 0: none
  int fragments = 1;          // the bytes below are of one outer step, so of one fragment
  int overlap = 0;            // steps during which its sums are exchanged
  std::int64_t steps = 0;     // outer steps that this process has taken
  bool in_last_step = false;  // the last step ended with an outer step
  std::int64_t sent_bytes = 0;
  std::int64_t sent_between_copies = 0;  // part of `sent_bytes`
  SentByCodec sent_by_codec{};           // all of `sent_bytes`
  std::int64_t planned_sent_bytes = 0;
  std::int64_t planned_sent_between_copies = 0;
  double formula_bytes = 0;
  SentBytes so_far{};  // by all outer steps of this process, and by the part of a running one that has been sent
};

// Results of the run on this rank. `rates`, `profile` and `link_per_step` explain `predicted`, and show which rate or
// which unit to change (docs/performance.md).
struct EngineReport {
  int world = 1;
  int rank = 0;
  int stage = 0;
  std::string transport;
  PerTier<MemoryCount> memory;                  // just before the first update of the last step
  PerTier<MemoryCount> peak_memory;             // of each tag
  PerTier<std::int64_t> peak_memory_bytes;      // of the sum
  PerLowerTier<DiskTraffic> requests_per_step;  // of the last step; none of a tier that is memory
  LinkTraffic link_per_step;                    // of the last step
  double updated_meanwhile_seconds = 0;         // so far: updates by the host while it waited for a device
  std::string disk;                             // how the disk is used; empty: no disk
  std::int64_t sent_bytes_per_step = 0;         // of the last step
  SentByCodec sent_by_codec{};                  // the same bytes
  std::int64_t received_bytes_per_step = 0;
  std::int64_t planned_sent_bytes = 0;  // of a step, by the current schedule; 0 before the first schedule
  CopiesReport copies;
  SecondaryReport secondary;
  OuterReport outer;
  double state_formula_bytes = 0;
  double sent_formula_bytes = 0;
  std::int64_t num_parameters = 0;
  std::int64_t padding_bytes = 0;
  std::int64_t skipped_steps = 0;
  std::optional<double> loss_scale;           // of the next step
  std::int64_t delayed_steps = 0;             // updates whose gradient was applied a step late
  TierRates rates;                            // rates of the prediction; zero if not probed
  StepProfile profile;                        // of the last step
  std::optional<DevicePasses> device_passes;  // of the last step; empty if the host computes
  // Predicted seconds of a step with the current placement, and with the last step's computation and exchange between
  // ranks (without waits for disk and link). Without these two before the first step.
  PredictedStep predicted;
  PerTier<std::int64_t> state_bytes;  // now
  bool movable = false;               // states may move while the model trains
  std::int64_t replans = 0;           // times that states moved: for memory, a new profile, or the program
  std::int64_t moved_bytes = 0;       // by all replans
  std::int64_t trace_mismatches = 0;  // number of steps with a trace mismatch
};

}  // namespace zero
