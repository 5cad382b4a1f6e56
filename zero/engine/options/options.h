// EngineOptions: the options of an engine, and of attach(). Values only; each option is declared only here.
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

// Whether states move while the model trains, to give memory back when other programs need it.
struct MonitorOptions {
  bool on = true;                  // states move where the placement is automatic, and a disk has room for all of them
  std::int64_t reserve_bytes = 0;  // of this machine, to be left free; 0: default_reserve()
  std::chrono::milliseconds period{20};
};

// The states that leave the device, and their tiers.
struct OffloadOptions {
  StateFractions fractions;
  // Without fractions, states that do not fit on the device go to the host or to `disk`, so that a step is as short as it
  // can be. False: no state leaves the device.
  bool automatic = true;
  // For states on the host, and for tiles on their way to disk. For states kAuto is the memory that a device_memory in
  // bytes leaves free, and nothing with another device_memory.
  MemoryBudget host_memory;
  std::vector<std::string> disk;  // folders, one on each disk; needed where a fraction lies on disk
  std::int64_t disk_memory = 0;   // most bytes that a rank may take on the disks; 0: no limit
  MonitorOptions monitor;
  bool checksums = false;  // every block that returns from disk is verified
  // A request that the disk does not answer within this time ends the run.
  std::chrono::milliseconds disk_timeout = DiskOptions{}.timeout;
  // Bytes a second of a link that stands for PCIe between device and host, each way; 0: there is none, both are main
  // memory. A user's option (`zero.link_bandwidth`): it shows what a step would take with such a link.
  double link_bytes_per_second = 0;
};

// Parameters that share hyper-parameters; the first group whose predicate holds takes a parameter.
struct ParameterGroup {
  std::function<bool(const ParamSpec&)> matches;
  // Absent: the optimizer's on parameters with two or more dimensions, none on the others, as without groups.
  std::optional<double> weight_decay = std::nullopt;
  double lr_scale = 1;
  // With a rule of matrices (muon, or a user's own): whether they are matrices to it; absent: as is_hidden_matrix() says.
  std::optional<bool> muon = std::nullopt;
  std::string name;  // a pattern, for the error if the group takes no parameter; empty: it may take none
};

// Fills `values` with those of a parameter, row by row, in fp32.
using WeightSource = std::function<void(const std::string& name, std::span<float> values)>;

struct EngineOptions {
  int stage = 3;
  // Ranks that hold the model once, neighbours of each other; it divides the number of ranks. Gathers and shards are
  // theirs, and gradients are summed over all ranks. 0: all ranks hold it once; with `local` each rank holds it.
  int group = 0;
  // Stage 3: neighbours, of the ranks that hold the model once, that keep all gathered weights together once more between a
  // unit's first gather and its update, each a part (zero/plan/units/secondary.h): later gathers of a step go over them alone. It
  // divides those ranks, and is neither 1 nor all of them. 0: none do.
  int secondary_group = 0;
  // Who owns which elements of a unit, of the ranks that hold the model once, or of the servers. kHash is for stage 3 alone.
  Cut shards = Cut::kRange;
  // With kWeighted: one positive number for each rank that holds the model once, the same in every copy, or for each server.
  // Empty: attach() measures the memory that each may take (zero/engine/states/shard_weights.h).
  std::vector<double> shard_weights{};
  // Copies of the model train apart: gradients are summed over the ranks of a copy alone, and an outer step merges the
  // copies now and then. Absent: gradients are summed over all ranks. See Attachment::merge_copies().
  std::optional<LocalSteps> local;
  // Servers: the first ranks hold and update all states, and the others, the workers, compute gradients for them.
  SyncPlan sync;
  // Codecs of gathered parameters (stage 3: each shard stays exact with its owner), of gradients on their way into a sum
  // over the ranks that hold the model once, and of outer steps. Operators outside training gather exact parameters.
  WireCodecs wire;
  // Parameters and shards begin at multiples of this many bytes; attach() fills it in, as the device wants it.
  std::int64_t align_bytes = kHostAlignBytes;
  // Of a worker, whose states servers update; attach() fills it in.
  bool updated_elsewhere = false;
  OptimizerOptions optimizer = AdamWOptions{};
  double clip = 0;                // global gradient norm; 0: off
  Reduce reduce = Reduce::kAuto;  // kEach (kAuto, too): every micro-batch is reduced; kLast: summed here, reduced once
  int accumulate = 1;             // micro-batches a step, each a forward and a backward pass
  RankSums sums = RankSums::kOrdered;  // over ranks: in rank order and fp32, with the same bits over every transport
  // ZeRO-Offload's delayed parameter update: each gradient is applied while the next one is computed. The weights
  // differ from an exact run's.
  bool delayed_update = false;
  std::int64_t exact_steps = 40;  // updates before the first delayed one: the first ones change the model too much
  // A step's gradient is the mean over its micro-batches instead of their sum; norm, clipping and limits are the
  // mean's.
  bool average_micro_batches = false;
  // Decay of a moving average of the weights, in fp32, that is kept and split as an optimizer's state is: "ema". See
  // Attachment::averaged(). 0: none.
  double ema = 0;
  // Type of parameters and gradients; master and moments are fp32. Absent: the module's own. Parameters and statistics
  // of a module with running statistics (BatchNorm; a buffer "running_mean") stay fp32: it takes and returns bf16 or
  // fp16 all the same. Other floating-point buffers become `dtype`, as module.to(dtype) makes them; the caller converts
  // the inputs.
  std::optional<DType> dtype;
  // Type of a gradient's sum over ranks and micro-batches; absent: the type of gradients. fp32: the sum of bf16 or fp16
  // gradients is not rounded to their type; it takes two more bytes for each element that a rank holds. Gradients are
  // sent in 16 bits all the same, which loses nothing: they have 16 bits before they are summed.
  std::optional<DType> reduce_dtype;
  // Factor of losses before backward(), by which gradients are divided again; norms, clipping and limits are those of
  // gradients without it. Absent: dynamic if a trained parameter is fp16, else none.
  std::optional<LossScaleOptions> loss_scale;
  MemoryBudget device_memory;  // for states, gathered units and staging
  OffloadOptions offload;      // the states that leave the device, and their tiers
  // Empty: the optimizer's weight decay on parameters with two or more dimensions, none on the others.
  std::vector<ParameterGroup> groups;
  std::vector<std::string> units;  // names of modules, each a unit; empty: a unit for each repeated block
  int threads = 1;                 // for sums and updates
  int local_world = 1;             // ranks that share this machine's memory; attach() fills it in
  int max_skipped_steps = 10;      // this many skipped steps in a row end the run
  // Records the spans of time of the engine's work; outlives the engine.
  Timeline* timeline = nullptr;
  // Of attach() alone, which makes specs, units and first values of a module:
  WeightSource weights;      // first values, instead of the module's: called on rank 0, within attach()
  bool awaits_load = false;  // no first values: load() must come first, and brings them
  // The name of the device, as open_device() takes it ("cuda:1"; device_of_rank() gives each rank its own). Empty: where the
  // module's parameters lie, and for a deferred module the CPU.
  std::string device{};
};

// What the first group that takes a parameter says, or what holds without groups. Throws ConfigError under "groups" where
// there are groups, and none takes a trained parameter.
struct ParameterValues {
  double weight_decay = 0;
  double lr_scale = 1;
};
ParameterValues values_of(const EngineOptions& options, const ParamSpec& spec);

// Matrices of hidden layers: parameters with two or more dimensions, but for embeddings and heads. A head is what lies in
// a module called "lm_head", "head", "classifier" or "score", or is tied to an embedding.
bool is_hidden_matrix(const ParamSpec& spec);

// What the optimizer treats as matrices, of parameters with two or more dimensions. A rule of matrices (RuleNeeds::kMatrices)
// updates hidden ones as wholes, and those that the groups name; one of rows and columns factors all. None with others.
MatrixChoice matrices_of(const EngineOptions& options);

// The optimizer's rule, with what else it keeps of each parameter. Throws as make_update_rule() and with_outer_states() do,
// and ConfigError under "train.ema" where `local` is given, too.
std::unique_ptr<UpdateRule> rule_of(const EngineOptions& options);

// Local. True if the host must compute the updates of a device whose memory it cannot read: a user's own rule has only host code.
bool host_updates(const Device& device, const EngineOptions& options);

// Throws ConfigError where the options forbid that rule: a delayed update of one that needs sums or directions of whole
// parameters, copies that train apart of one with states of rows and columns.
void require_rule(const EngineOptions& options, const UpdateRule& rule);

// The units of a model, cut for the ranks of `world` that hold it once, or the servers. Throws as make_units(), mesh_of(), and
// ConfigError under "zero.shards" where the other options forbid that cut, as require_rule() does, or "zero.shard_weights"; under "optimizer.name", or
// "optimizer.rule" of a user's own, where the rule needs a matrix and no trained parameter is one. Weighted units speak for
// the rank with the largest weight (as_seen_by()); without weights all ranks weigh the same.
std::vector<Unit> units_of(const std::vector<ParamSpec>& specs, int world, const EngineOptions& options);

// How `world` ranks hold the model. Throws ConfigError under "zero.group" for one that does not divide them, under
// "sync.mode" where copies should train apart, and there is one.
Mesh mesh_of(int world, const EngineOptions& options);

// Says in the placement how the copies of the mesh stay one model, and how bytes are coded on their way: parameters where
// they are sharded.
void set_exchange(Placement& placement, const Mesh& mesh, const EngineOptions& options);

// Throws ConfigError under "zero.secondary_group" where such groups of ranks cannot be, or other options leave them nothing to do.
void require_secondary(const EngineOptions& options, int world);

// Throws ConfigError under "comm.gather_wire", "comm.reduce_wire", "comm.outer_wire" or "comm.outer_topk" where nothing of that
// kind crosses, or what crosses is the only copy of its values; and under the last for a share that is none.
void require_wire(const EngineOptions& options, int world);

}  // namespace zero
