// What an engine is told once, and what it reports back. Values only.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/tier.h"
#include "zero/base/timeline.h"
#include "zero/memory/disk_tier.h"
#include "zero/memory/ledger.h"
#include "zero/memory/link.h"
#include "zero/memory/memory_monitor.h"
#include "zero/optim/update_rule.h"
#include "zero/plan/param_spec.h"
#include "zero/plan/placement.h"
#include "zero/plan/step_model.h"

namespace zero {

// Budget of everything zero.cpp holds on a tier: on the device state, gathered units and staging.
//   auto: what is free on this machine, shared by its ranks
//   min: the least that works: one unit gathered at a time, nothing ahead; one tile of what lies on disk at a time
struct TierMemory {
  enum class Kind : std::uint8_t { kAuto, kMin, kBytes };
  Kind kind = Kind::kAuto;
  std::int64_t bytes = 0;  // of kBytes
  // "auto", "min", or a size such as "64MiB". Throws ConfigError under `key`.
  static TierMemory parse(std::string_view text, std::string_view key = "zero.device_memory");
};

// Whether states move while the model trains, so that other programs find memory when they need it.
struct MonitorOptions {
  bool on = true;                  // states move where the placement is automatic, and a disk has room for all of them
  std::int64_t reserve_bytes = 0;  // of this machine, to be left free; 0: default_reserve()
  std::chrono::milliseconds period{20};
  std::function<MemoryReading()> read;  // empty: of this machine
};

// What leaves the device, and where to.
struct OffloadOptions {
  StateFractions fractions;
  // Without fractions: what does not fit on the device goes where a step is shortest: into host_memory (kAuto: what a
  // device_memory in bytes leaves free of the machine, else no states) or to a disk that is named. False: nothing goes.
  bool automatic = true;
  TierMemory host_memory;
  std::int64_t parked_bytes = 0;  // of a rank's activations on the host, where host_memory is kAuto
  std::vector<std::string> disk;  // folders, one a disk; needed where a fraction lies there
  std::int64_t disk_memory = 0;   // most bytes a rank may take there; 0: what it needs
  MonitorOptions monitor;
  // What this machine gives a rank, where that is known from before; without update_numel it is probed, where it is
  // needed for a choice or, with `probes`, always.
  TierRates rates;
  bool probes = false;
  // What the model computes, where that is known before it runs. Else states are placed as if it were nothing, and once
  // more when a few steps have shown it.
  StepProfile profile;
  bool checksums = false;  // every block that returns from disk is verified
  // A request to the disk without an answer for so long ends the run.
  std::chrono::milliseconds disk_timeout = DiskOptions{}.timeout;
  // For tests: what stands between the disk and the kernel, of the engine and of its probes; outlives them. Null:
  // nothing.
  const DiskSeam* disk_seam = nullptr;
  // Bytes a second of a link that stands for PCIe between device and host, each way; 0: there is none, both are main
  // memory. For tests and experiments.
  double link_bytes_per_second = 0;
};

// Parameters that share hyper-parameters; the first group whose predicate holds takes a parameter.
struct ParameterGroup {
  std::function<bool(const ParamSpec&)> matches;
  double weight_decay = 0;
  double lr_scale = 1;
};

struct EngineOptions {
  int stage = 3;
  Reduce reduce = Reduce::kAuto;
  int accumulate = 1;  // backward passes a step; all but the last inside an accumulate() scope
  // ZeRO-Offload's: from some step on a gradient is applied while the next one is computed. Not the bits of an exact
  // run.
  bool delayed_update = false;
  std::int64_t exact_steps = 40;  // updates before that: the first ones change the model too much
  TierMemory device_memory;
  OffloadOptions offload;
  OptimizerOptions optimizer = AdamWOptions{};
  // Empty: the optimizer's weight decay on parameters with two or more dimensions, none on the others.
  std::vector<ParameterGroup> groups;
  double clip = 0;  // global gradient norm; 0: off
  // A step's gradient is the mean over its micro-batches instead of their sum; norm, clipping and limits are the
  // mean's.
  bool average_micro_batches = false;
  int threads = 1;             // for sums and updates
  int local_world = 1;         // ranks that share this machine's memory
  int max_skipped_steps = 10;  // this many skipped steps in a row end the run
  // Gets what the engine does while it records; outlives the engine.
  Timeline* timeline = nullptr;
};

// What a step must stay under: where the mean loss over ranks, or the norm, exceeds its limit, nothing is updated on
// any rank. Rank 0's limits count.
struct StepLimits {
  std::optional<double> loss;  // this rank's; where every rank gives one, their mean must be finite, too
  double max_loss = std::numeric_limits<double>::infinity();
  double max_grad_norm = std::numeric_limits<double>::infinity();
};

enum class SkipReason : std::uint8_t { kNone, kNonFinite, kLossSpike, kNormSpike };

std::string_view name_of(SkipReason reason);  // "", "not finite", "loss spike", "norm spike"

// What one step did.
struct StepReport {
  std::int64_t step = 0;                  // updates so far, this one included; skipped steps do not count
  double grad_norm = 0;                   // of the average over ranks (and micro-batches), before clipping
  bool skipped = false;                   // nothing was updated
  std::string culprit;                    // the first parameter whose gradient is not finite
  SkipReason reason = SkipReason::kNone;  // of a skipped step: the first that holds, in their order
  double loss = std::numeric_limits<double>::quiet_NaN();  // mean over ranks; NaN where one gave none
};

// How far an engine has come: with the states that ShardedState holds, all that its next step depends on.
struct EngineProgress {
  std::int64_t steps = 0;  // updates
  std::int64_t skipped = 0;
  std::int64_t skipped_in_a_row = 0;
  std::int64_t delayed = 0;
  std::vector<std::int64_t> updates;  // by parameter: one without a gradient anywhere is left alone
  bool operator==(const EngineProgress&) const = default;
};

// Seconds by phase since the last reset; `wait` is time spent waiting for other ranks, inside the others.
struct PhaseSeconds {
  double gather = 0;
  double reduce = 0;
  double update = 0;
  double wait = 0;
};

// The step in which states are placed once more: the first records, the second is the first that follows the schedule.
constexpr std::int64_t kProfileStep = 3;

struct EngineReport {
  int world = 1;
  int rank = 0;
  int stage = 0;
  std::string transport;
  MemoryCount memory;                    // on the device, just before the first update of the last step
  MemoryCount peak_memory;               // on the device, by tag
  std::int64_t peak_memory_bytes = 0;    // of the sum
  MemoryCount host_memory, disk_memory;  // at the same time as `memory`
  MemoryCount peak_host_memory;
  std::int64_t peak_host_memory_bytes = 0;  // of the sum
  DiskTraffic disk_per_step;                // of the last step
  LinkTraffic link_per_step;                // of the last step
  std::string disk;                         // how the disk is used; empty: not at all
  std::int64_t sent_bytes_per_step = 0;     // of the last step
  std::int64_t received_bytes_per_step = 0;
  std::int64_t planned_sent_bytes = 0;  // what the schedule in force predicts for a step; 0 before there is one
  double state_formula_bytes = 0;
  double sent_formula_bytes = 0;
  std::int64_t num_parameters = 0;
  std::int64_t padding_bytes = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t delayed_steps = 0;  // of which the gradient was applied a step late
  TierRates rates;                 // what the prediction counts with; zero where nothing was probed
  StepProfile profile;             // of the last step
  // What a step takes as states lie now, with what the last one computed and exchanged between ranks (waits for disk
  // and link left out): before the first step, with nothing of it.
  PredictedStep predicted;
  std::array<std::int64_t, kNumTiers> state_bytes{};  // of states, by tier, as they lie now
  bool movable = false;                               // they may move while the model trains
  std::int64_t replans = 0;         // how often states moved: memory was short, or free again; a profile was known
  std::int64_t moved_bytes = 0;     // by them, in all
  std::int64_t departed_steps = 0;  // steps that did something else than their schedule
};

}  // namespace zero
