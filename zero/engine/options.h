// What an engine is told once. Values only; each option is declared here alone, for attach() and for the engine.
//
// Designated initializers keep this order: {.stage = 3, .optimizer = AdamWOptions{.lr = 3e-4}, .clip = 1.0}.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/dtype.h"
#include "zero/base/tier.h"
#include "zero/base/timeline.h"
#include "zero/engine/loss_scale.h"
#include "zero/memory/disk_tier.h"
#include "zero/memory/memory_monitor.h"
#include "zero/optim/update_rule.h"
#include "zero/plan/param_spec.h"
#include "zero/plan/placement.h"
#include "zero/plan/unit.h"

namespace zero {

struct EngineSeams;  // zero/engine/engine_seams.h

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
  std::vector<std::string> disk;  // folders, one a disk; needed where a fraction lies there
  std::int64_t disk_memory = 0;   // most bytes a rank may take there; 0: what it needs
  MonitorOptions monitor;
  bool checksums = false;  // every block that returns from disk is verified
  // A request to the disk without an answer for so long ends the run.
  std::chrono::milliseconds disk_timeout = DiskOptions{}.timeout;
  // Bytes a second of a link that stands for PCIe between device and host, each way; 0: there is none, both are main
  // memory. For experiments.
  double link_bytes_per_second = 0;
  std::shared_ptr<const EngineSeams> seams;  // of tests and of runners such as `zero train`; null: none
};

// Parameters that share hyper-parameters; the first group whose predicate holds takes a parameter.
struct ParameterGroup {
  std::function<bool(const ParamSpec&)> matches;
  double weight_decay = 0;
  double lr_scale = 1;
  std::optional<bool> muon = std::nullopt;  // with muon: whether it takes them; absent: as is_hidden_matrix() says
  std::string name;  // of groups of which one must take a parameter: a pattern; empty: it may take none
};

// Fills `values` with those of a parameter, row by row, in fp32.
using WeightSource = std::function<void(const std::string& name, std::span<float> values)>;

struct EngineOptions {
  int stage = 3;
  OptimizerOptions optimizer = AdamWOptions{};
  double clip = 0;                // global gradient norm; 0: off
  Reduce reduce = Reduce::kAuto;  // of micro-batches: each is reduced, at every stage; kLast: summed here, reduced once
  int accumulate = 1;             // micro-batches a step, each a forward and a backward pass
  // ZeRO-Offload's: from some step on a gradient is applied while the next one is computed. Not the bits of an exact
  // run.
  bool delayed_update = false;
  std::int64_t exact_steps = 40;  // updates before that: the first ones change the model too much
  // A step's gradient is the mean over its micro-batches instead of their sum; norm, clipping and limits are the
  // mean's.
  bool average_micro_batches = false;
  // Decay of a moving average of the weights, in fp32, that is kept and split as an optimizer's state is: "ema". See
  // Attachment::averaged(). 0: none.
  double ema = 0;
  // Of parameters and gradients; master and moments are fp32. Absent: the module's own. Parameters and statistics of a
  // module with running statistics (BatchNorm; a buffer "running_mean") are fp32 then: it takes and returns bf16 or
  // fp16 all the same. Other buffers that are no whole numbers become `dtype`, as module.to(dtype) makes
  // them; inputs are the caller's.
  std::optional<DType> dtype;
  // Of a gradient's sum over ranks and micro-batches; absent: the type of gradients. fp32: the sum of bf16 or fp16
  // gradients is not rounded to their type, and clipped and applied as it is, for two more bytes an element of what is
  // held. Gradients cross in 16 bits all the same, which loses nothing: sums are made in fp32 anyway.
  std::optional<DType> reduce_dtype;
  // What losses are multiplied with before backward(), and gradients divided by; norms, clipping and limits are of
  // gradients without it. Absent: dynamic where a trained parameter is fp16, else none.
  std::optional<LossScaleOptions> loss_scale;
  TierMemory device_memory;
  OffloadOptions offload;  // what leaves the device, and where to
  // Empty: the optimizer's weight decay on parameters with two or more dimensions, none on the others.
  std::vector<ParameterGroup> groups;
  std::vector<std::string> units;  // module names that become a unit each; empty: one a repeated block
  int threads = 1;                 // for sums and updates
  int local_world = 1;             // ranks that share this machine's memory; attach() fills it in
  int max_skipped_steps = 10;      // this many skipped steps in a row end the run
  // Gets what the engine does while it records; outlives the engine.
  Timeline* timeline = nullptr;
  // Of attach() alone, which makes specs, units and first values of a module:
  WeightSource weights;      // first values, instead of the module's: called on rank 0, within attach()
  bool awaits_load = false;  // no first values: load() brings them, and before it nothing else is possible
};

// Matrices of hidden layers: parameters with two or more dimensions, but for embeddings and heads. A head is what lies in
// a module called "lm_head", "head", "classifier" or "score", or is tied to an embedding.
bool is_hidden_matrix(const ParamSpec& spec);

// What the optimizer updates as whole matrices: with muon hidden matrices, and what the groups say, of parameters with two
// or more dimensions. Empty with others.
IsMatrix matrices_of(const EngineOptions& options);

// The optimizer's rule, with what else it keeps of each parameter. Throws as make_update_rule() does.
std::unique_ptr<UpdateRule> rule_of(const EngineOptions& options);

}  // namespace zero
