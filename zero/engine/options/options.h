// AttachOptions: what users write for attach(), and an engine reads. Values only; each option is declared only here.
// What the engine is told beside it is in EngineHost (zero/engine/options/engine_host.h).
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

#include "zero/base/numbers/dtype.h"
#include "zero/base/numbers/memory_budget.h"
#include "zero/base/numbers/tier.h"
#include "zero/base/numbers/wire_codec.h"
#include "zero/base/process/timeline.h"
#include "zero/engine/options/loss_scale.h"
#include "zero/memory/disk/disk_options.h"
#include "zero/optim/outer_step.h"
#include "zero/optim/rule_registry.h"
#include "zero/plan/served/sync_plan.h"
#include "zero/plan/units/cut.h"
#include "zero/plan/units/mesh.h"
#include "zero/plan/units/param_spec.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

class Device;

// Decides whether states move while the model trains, to free memory that other programs need.
struct MonitorOptions {
  bool on = true;                  // states move if the placement is automatic and a disk has room for all of them
  std::int64_t reserve_bytes = 0;  // of this machine, to be kept free; 0: default_reserve()
  std::chrono::milliseconds period{20};
};

// The states that leave the device, and their tiers.
struct OffloadOptions {
  StateFractions fractions;
  // Without fractions, states that do not fit on the device move to the host or to `disk`, placed for the shortest
  // step. False: no state leaves the device.
  bool automatic = true;
  // For states on the host, and for tiles of states on disk. For states, kAuto is the memory that a device_memory in
  // bytes leaves free, and 0 with any other device_memory.
  MemoryBudget host_memory;
  std::vector<std::string> disk;  // folders, one on each disk; needed if a fraction puts states on disk
  std::int64_t disk_memory = 0;   // most bytes of a rank on the disks; 0: no limit
  MonitorOptions monitor;
  bool checksums = false;  // verify every block that is read from disk
  // A disk request that is not answered within this time ends the run.
  std::chrono::milliseconds disk_timeout = DiskOptions{}.timeout;
  // Bytes a second of a simulated PCIe link between device and host, each way; 0: no link, both are main memory. The
  // user's option `zero.link_bandwidth`, to see how long a step would take with such a link.
  double link_bytes_per_second = 0;

  // Returns whether the options give states room on this tier: the host a budget in bytes, the disk a folder.
  bool has_room_on(Tier tier) const;
  // Returns whether they give states room on any tier below the device.
  bool has_lower_room() const;
};

// States that RankEngine::offload_states() moves. `optimizer`: the moments, and the master if there is one.
struct MovedStates {
  bool parameter = true, gradient = true, optimizer = true;
};

// Parameters that share hyper-parameters. A parameter belongs to the first group whose predicate holds.
struct ParameterGroup {
  std::function<bool(const ParamSpec&)> matches;
  // Absent: as without groups, the optimizer's for parameters with two or more dimensions, none for others.
  std::optional<double> weight_decay = std::nullopt;
  double lr_scale = 1;
  // With a rule of matrices (muon, or a user's own): whether they are matrices to it; absent: is_hidden_matrix()
  // decides.
  std::optional<bool> muon = std::nullopt;
  std::string name;  // pattern for the error if no parameter belongs to the group; empty: the group may be empty
};

// Fills `values` with a parameter's values, row by row, in fp32.
using WeightSource = std::function<void(const std::string& name, std::span<float> values)>;

struct AttachOptions {
  int stage = 3;
  // Neighbouring ranks that hold one copy of the model; divides the number of ranks. Shards belong to these ranks,
  // which gather among themselves. Gradients are summed over all ranks. 0: all ranks hold one copy; with `local` each
  // rank holds it.
  int group = 0;
  // Stage 3: number of neighbours that together keep all gathered weights between a unit's first gather and its update
  // (zero/plan/units/secondary.h). They are among the ranks that hold one copy of the model. Later gathers of a step
  // use only these ranks. Must divide those ranks, and be neither 1 nor all of them. 0: off.
  int secondary_group = 0;
  // Owners of a unit's elements, among the ranks that hold one copy of the model, or the servers. kHash is only for
  // stage 3.
  Cut shards = Cut::kRange;
  // With kWeighted: one positive number for each rank that holds one copy of the model, the same in every copy, or for
  // each server. Empty: attach() measures the ranks' memory (zero/engine/states/shard_weights.h).
  std::vector<double> shard_weights{};
  // Copies of the model train apart: gradients are summed only over the ranks of a copy, and outer steps merge the
  // copies. Absent: gradients are summed over all ranks. See Engine::merge_copies().
  std::optional<LocalSteps> local;
  // Servers: the first ranks hold and update all states, and the other ranks, the workers, compute gradients for them.
  SyncPlan sync;
  // Codecs of gathered parameters (stage 3; each shard stays exact on its owner), of gradients, and of outer steps.
  // Gradients are coded before their sum over the ranks that hold one copy of the model. Operators outside training
  // gather exact parameters.
  WireCodecs wire;
  // Alignment of parameters and shards, in bytes; attach() sets it for the device.
  std::int64_t align_bytes = kHostAlignBytes;
  OptimizerOptions optimizer = AdamWOptions{};
  double clip = 0;                // global gradient norm; 0: off
  Reduce reduce = Reduce::kAuto;  // kEach or kAuto: reduce every micro-batch; kLast: sum locally, reduce once
  int accumulate = 1;             // micro-batches a step, each with a forward and a backward pass
  // Leaves of a step (zero/plan/units/leaves.h): its gradient is the mean over them, summed in one tree, and no bit
  // depends on the number of ranks. `accumulate` and `reduce` follow from them. 0: off.
  int leaves = 0;
  RankSums sums = RankSums::kOrdered;  // over ranks: in rank order, in fp32, with the same bits over every transport
  // ZeRO-Offload's delayed parameter update: each gradient is applied while the next gradient is computed. The weights
  // differ from those of a run with on-time updates.
  bool delayed_update = false;
  // on-time updates before the first delayed update, because the first updates change the model too much
  std::int64_t exact_steps = 40;
  // A step's gradient is the mean over its micro-batches, not their sum; so are norm, clipping and limits.
  bool average_micro_batches = false;
  // Decay of a moving average of the weights, "ema", kept in fp32 and sharded as an optimizer state. See
  // Engine::averaged(). 0: off.
  double ema = 0;
  // Type of parameters and gradients; master and moments are fp32. Absent: the module's own. A module with running
  // statistics (BatchNorm; a buffer "running_mean") keeps its parameters and statistics in fp32, and still takes and
  // returns bf16 or fp16. Other floating-point buffers become `dtype`, as with module.to(dtype). The caller converts
  // the inputs.
  std::optional<DType> dtype;
  // Type of a gradient's sum over ranks and micro-batches; absent: the type of gradients. With fp32 the sum of bf16 or
  // fp16 gradients is not rounded, and takes two more bytes for each element that a rank holds. Gradients are still
  // sent in 16 bits. This loses nothing, because they have 16 bits before they are summed.
  std::optional<DType> reduce_dtype;
  // Factor of losses before backward(); gradients are divided by it again. Norms, clipping and limits are those of
  // unscaled gradients. Absent: dynamic if a trained parameter is fp16, else none.
  std::optional<LossScaleOptions> loss_scale;
  MemoryBudget device_memory;  // for states, gathered units and staging
  OffloadOptions offload;      // the states that leave the device, and their tiers
  // Empty: the optimizer's weight decay for parameters with two or more dimensions, none for others.
  std::vector<ParameterGroup> groups;
  std::vector<std::string> units;  // names of modules, each a unit; empty: a unit for each repeated block
  int threads = 1;                 // for sums and updates
  int max_skipped_steps = 10;      // skipped steps in a row that end the run
  // Records the spans of the engine's work; must outlive the engine.
  Timeline* timeline = nullptr;
  // Only for attach(), which makes specs, units and first values of a module:
  WeightSource weights;      // first values, instead of the module's: called on rank 0, within attach()
  bool awaits_load = false;  // no first values: load() must be called first
  // Name of the device for open_device() ("cuda:1"; device_of_rank() gives each rank its own). Empty: the device of the
  // module's parameters, and the CPU for a deferred module.
  std::string device{};
};

// Return the bytes of a tier's budget (its key: TierFacts::budget), or null if the options give it no bytes: "auto",
// "min", or no limit. The only code that knows which option is the budget of which tier.
std::int64_t* budget_bytes(AttachOptions& options, Tier tier);
const std::int64_t* budget_bytes(const AttachOptions& options, Tier tier);

// Returns the values of the first group with the parameter, or the defaults without groups. Throws ConfigError under
// "groups" if there are groups, and no group has a trained parameter.
struct ParameterValues {
  double weight_decay = 0;
  double lr_scale = 1;
  int group = -1;  // of options.groups; -1: none
};
ParameterValues values_of(const AttachOptions& options, const ParamSpec& spec);

// Returns the same options with equal ranges. units_of() then makes whole units, as a rank with all elements has them.
AttachOptions with_equal_ranges(AttachOptions options);

// Returns whether a parameter is a matrix of a hidden layer: two or more dimensions, but no embedding and no head. A
// head belongs to a module called "lm_head", "head", "classifier" or "score", or is tied to an embedding.
bool is_hidden_matrix(const ParamSpec& spec);

// Returns the parameters with two or more dimensions that the optimizer treats as matrices. A rule of matrices
// (RuleNeeds::kMatrices) updates hidden ones whole, and those that groups name; a rule of rows and columns factors all.
// Other rules have none.
MatrixChoice matrices_of(const AttachOptions& options);

// Returns the optimizer's rule, with its other states of each parameter. Throws as make_update_rule() and
// with_outer_states() do, and ConfigError under "train.ema" if `local` is also set.
std::unique_ptr<UpdateRule> rule_of(const AttachOptions& options);

// Local. Returns whether the host must compute updates for a device whose memory it cannot read: a user's own rule has
// only host code.
bool host_updates(const Device& device, const AttachOptions& options);

// Throws ConfigError if the options forbid the rule. delayed_update forbids sums or directions of whole parameters
// (LAMB, Adafactor, Muon). Local steps forbid states of rows and columns (Adafactor).
void require_rule(const AttachOptions& options, const UpdateRule& rule);

// Throws ConfigError under "optimizer.name", or "optimizer.rule" of a user's own, if the rule needs a matrix. It does
// so if no trained parameter of a whole model is a matrix. A section of a pipeline may have none.
void require_matrix(const std::vector<ParamSpec>& specs, const AttachOptions& options);

// Throws ConfigError under "optimizer.group" if a named group has no parameter of a whole model, because a mistyped
// pattern would change nothing. Also if the group has muon = true and no matrix. A section of a pipeline may have no
// parameter of a group.
void require_members(const std::vector<ParamSpec>& specs, const std::vector<ParameterGroup>& groups);

// Returns the units of a model, cut for the `world` ranks that hold one copy of it. Throws as make_units() and
// mesh_of(). Throws ConfigError under "zero.shards" if other options forbid that cut, as require_rule() does, or
// "zero.shard_weights". Weighted units have the view of the rank with the largest weight (as_seen_by()); without
// weights all ranks have the same weight.
std::vector<Unit> units_of(const std::vector<ParamSpec>& specs, int world, const AttachOptions& options);

// Returns the mesh of `world` ranks. Throws ConfigError under "zero.group" if the group does not divide them, and under
// "sync.mode" if copies should train apart and there is only one.
Mesh mesh_of(int world, const AttachOptions& options);

// Sets in the placement how copies of the mesh are synchronised, and which codecs are used; the codec of parameters
// only if they are sharded.
void set_exchange(Placement& placement, const Mesh& mesh, const AttachOptions& options);

// Throws ConfigError under "zero.secondary_group" if such groups are impossible, or other options leave them without
// use.
void require_secondary(const AttachOptions& options, int world);

// Throws ConfigError under "comm.gather_wire", "comm.reduce_wire", "comm.outer_wire" or "comm.outer_topk" if nothing of
// that kind is sent. Also if the sent values have no other copy, and under "comm.outer_topk" for an invalid share.
void require_wire(const AttachOptions& options, int world);

}  // namespace zero
