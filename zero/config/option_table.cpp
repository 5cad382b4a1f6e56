// The table itself. A new key is a member with its default in config.h, a row here, and a line in
// zero/cli/torch_verbs/job.cpp, which hands it to the part that uses it and has an option of its own for it. A rule between
// keys goes into rules.cpp. File, environment, command line, help, manual page and completion follow from the row.
#include <array>

#include "zero/config/option.h"

namespace zero {
namespace {

template <auto Section, auto Member>
constexpr auto at = +[](Config& config) -> auto& {
  return config.*Section.*Member;
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kInt32 = 2147483647;
constexpr double kExactInDouble = 9007199254740992;  // 2^53: seeds survive a trip through JSON

constexpr Range kAny{};
constexpr Range kPositive{.lowest = 1, .highest = kInt32};
constexpr Range kNatural{.lowest = 0, .highest = kInt32};
constexpr Range kNotNegative{.lowest = 0};
constexpr Range kAboveZero{.lowest = 0, .highest = kNoLimit, .above_lowest = true};
constexpr Range kBelowOne{.lowest = 0, .highest = 1, .below_highest = true};
constexpr std::span<const std::string_view> kFree{};

using Words = std::string_view;
constexpr std::array kModels{Words("gpt2"), Words("mlp"), Words("linear")};
constexpr std::array kKinds{Words("text"), Words("tokens"), Words("mnist"), Words("csv")};
constexpr std::array kOrders{Words("shuffled"), Words("sequential")};
constexpr std::array kReduces{Words("auto"), Words("each"), Words("last")};
constexpr std::array kActivationTiers{Words("none"), Words("host"), Words("disk")};
constexpr std::array kDTypes{Words("fp32"), Words("bf16")};
constexpr std::array kOptimizers{Words("adamw"), Words("sgd")};
constexpr std::array kSchedules{Words("constant"), Words("linear"), Words("cosine")};
constexpr std::array kRates{Words("cached"), Words("probe")};
constexpr std::array kPlacements{Words("auto"), Words("device")};
constexpr std::array kOnErrors{Words("continue"), Words("stop")};
constexpr std::array kNonFinites{Words("skip"), Words("rewind"), Words("stop")};
constexpr std::array kSpikes{Words("ignore"), Words("skip"), Words("rewind"), Words("stop")};
constexpr std::array kCorruptions{Words("stop"), Words("rewind")};
constexpr std::array kTransports{Words("auto"), Words("in_process"), Words("shared_memory"),
                                 Words("mpi"),  Words("gloo"),       Words("nccl")};
constexpr std::array kSections{Words("model"),    Words("data"), Words("train"),      Words("optimizer"),
                               Words("schedule"), Words("zero"), Words("checkpoint"), Words("health"),
                               Words("comm"),     Words("run")};

constexpr auto kModel = &Config::model;
constexpr auto kData = &Config::data;
constexpr auto kTrain = &Config::train;
constexpr auto kOptimizer = &Config::optimizer;
constexpr auto kSchedule = &Config::schedule;

// clang-format off
constexpr std::array kOptions{
    Option{"model.name", at<kModel, &ModelConfig::name>, kAny, kModels, "architecture"},
    Option{"model.layers", at<kModel, &ModelConfig::layers>, kPositive, kFree, "blocks of a gpt2"},
    Option{"model.width", at<kModel, &ModelConfig::width>, kPositive, kFree, "features of a gpt2's residual stream"},
    Option{"model.heads", at<kModel, &ModelConfig::heads>, kPositive, kFree, "attention heads of a gpt2; divides width"},
    Option{"model.context", at<kModel, &ModelConfig::context>, kPositive, kFree, "most tokens a gpt2 sees at once"},
    Option{"model.vocab", at<kModel, &ModelConfig::vocab>, kNatural, kFree, "number of tokens; 0: the data's"},
    Option{"model.dropout", at<kModel, &ModelConfig::dropout>, kBelowOne, kFree, "probability of dropping an activation"},
    Option{"model.sizes", at<kModel, &ModelConfig::sizes>, kPositive, kFree, "an mlp's layers, input first"},
    Option{"model.init", at<kModel, &ModelConfig::init>, kAny, kFree, "weights to start from: a safetensors file, an index of several, or a folder that holds one; empty: seeded random"},

    Option{"data.kind", at<kData, &DataConfig::kind>, kAny, kKinds, "text: bytes are tokens; tokens: llm.c or nanoGPT .bin; mnist: IDX; csv: last column is the target"},
    Option{"data.path", at<kData, &DataConfig::path>, kAny, kFree, "file, or folder of MNIST's files; must be given"},
    Option{"data.validation", at<kData, &DataConfig::validation>, kBelowOne, kFree, "fraction held out from the end, or a path; 0: none"},
    Option{"data.context", at<kData, &DataConfig::context>, kNatural, kFree, "tokens a sample; 0: the model's context"},
    Option{"data.order", at<kData, &DataConfig::order>, kAny, kOrders, "order of samples, a function of seed and position alone"},

    Option{"train.steps", at<kTrain, &TrainConfig::steps>, kPositive, kFree, "optimizer steps"},
    Option{"train.batch", at<kTrain, &TrainConfig::batch>, kPositive, kFree, "samples per rank and micro-batch"},
    Option{"train.accumulate", at<kTrain, &TrainConfig::accumulate>, kPositive, kFree, "micro-batches a step"},
    Option{"train.reduce", at<kTrain, &TrainConfig::reduce>, kAny, kReduces, "each: every micro-batch is summed over ranks; last: a rank sums its own first, sends less and holds the whole gradient, with other last bits; auto: each"},
    Option{"train.global_batch", at<kTrain, &TrainConfig::global_batch>, kNatural, kFree, "batch * accumulate * world; the one left out is derived; 0: not given"},
    Option{"train.dtype", at<kTrain, &TrainConfig::dtype>, kAny, kDTypes, "of parameters and gradients; master and moments are fp32"},
    Option{"train.clip", at<kTrain, &TrainConfig::clip>, kNotNegative, kFree, "global gradient norm is clipped to this; 0: off"},
    Option{"train.checkpoint_activations", at<kTrain, &TrainConfig::checkpoint_activations>, kAny, kFree, "a gpt2's blocks are computed again in backward: less memory, more time, the same bits"},
    Option{"train.offload_activations", at<kTrain, &TrainConfig::offload_activations>, kAny, kActivationTiers, "where the inputs of those blocks lie until backward; disk: in zero.disk. They count in that budget, host_memory or disk_memory. needs checkpoint_activations"},
    Option{"train.seed", at<kTrain, &TrainConfig::seed>, Range{.lowest = 0, .highest = kExactInDouble}, kFree, "of initialisation, order and dropout"},
    Option{"train.eval_every", at<kTrain, &TrainConfig::eval_every>, kNatural, kFree, "steps between evaluations; 0: only at the end"},
    Option{"train.eval_batches", at<kTrain, &TrainConfig::eval_batches>, kNatural, kFree, "batches an evaluation; 0: the whole validation split"},
    Option{"train.log_every", at<kTrain, &TrainConfig::log_every>, kPositive, kFree, "steps between lines of output"},
    Option{"train.sample", at<kTrain, &TrainConfig::sample>, kNatural, kFree, "tokens to generate when done"},

    Option{"optimizer.name", at<kOptimizer, &OptimizerConfig::name>, kAny, kOptimizers, "update rule"},
    Option{"optimizer.lr", at<kOptimizer, &OptimizerConfig::lr>, kNotNegative, kFree, "highest learning rate"},
    Option{"optimizer.betas", at<kOptimizer, &OptimizerConfig::betas>, kBelowOne, kFree, "adamw's decay of the two moments"},
    Option{"optimizer.eps", at<kOptimizer, &OptimizerConfig::eps>, kAboveZero, kFree, "adamw's guard against division by zero"},
    Option{"optimizer.weight_decay", at<kOptimizer, &OptimizerConfig::weight_decay>, kNotNegative, kFree, "on tensors with two or more dimensions"},
    Option{"optimizer.momentum", at<kOptimizer, &OptimizerConfig::momentum>, kBelowOne, kFree, "sgd's"},

    Option{"schedule.name", at<kSchedule, &ScheduleConfig::name>, kAny, kSchedules, "learning rate after the warm-up"},
    Option{"schedule.warmup", at<kSchedule, &ScheduleConfig::warmup>, kNatural, kFree, "steps of linear warm-up"},
    Option{"schedule.min_lr", at<kSchedule, &ScheduleConfig::min_lr>, kNotNegative, kFree, "learning rate at the last step"},

    Option{"zero.stage", at<&Config::zero, &ZeroConfig::stage>, Range{.lowest = 0, .highest = 3}, kFree, "0 replicate; shard 1 optimizer state, 2 + gradients, 3 + parameters"},
    Option{"zero.device_memory", at<&Config::zero, &ZeroConfig::device_memory>, kAny, kFree, "budget a rank, of states and what is gathered and reduced; what does not fit goes to the host or a disk. auto: what is free; min: the least that works (states leave where host_memory is in bytes, or a disk is named)"},

    Option{"zero.host_memory", at<&Config::zero, &ZeroConfig::host_memory>, kAny, kFree, "the same of host memory, for what the device cannot hold, and parked activations; auto: what a device_memory in bytes leaves free of the machine"},
    Option{"zero.disk", at<&Config::zero, &ZeroConfig::disk>, kAny, kFree, "folders for what is placed on disk, one a disk"},
    Option{"zero.disk_memory", at<&Config::zero, &ZeroConfig::disk_memory>, kAny, kFree, "most bytes a rank may take there, states and parked activations; auto: what it needs"},
    Option{"zero.delayed_update", at<&Config::zero, &ZeroConfig::delayed_update>, kAny, kFree, "whether gradients are applied one step late from step 41 on, while the next step computes; needs stage 2"},
    Option{"zero.checksums", at<&Config::zero, &ZeroConfig::checksums>, kAny, kFree, "whether every page that returns from disk is verified; 8 bytes of memory a page, beyond host_memory"},
    Option{"zero.monitor", at<&Config::zero, &ZeroConfig::monitor>, kAny, kFree, "whether memory is given back while another program needs it: units that stay gathered, and where the placement is automatic and a disk is named, states"},
    Option{"zero.memory_reserve", at<&Config::zero, &ZeroConfig::memory_reserve>, kAny, kFree, "memory of this machine that is kept free; others may take half of it in the time of a step; auto: a sixteenth, 64 MiB to 1 GiB"},
    Option{"zero.rates", at<&Config::zero, &ZeroConfig::rates>, kAny, kRates, "what disk and update manage; cached: as probed on this machine once, probe: again"},
    Option{"zero.link_bandwidth", at<&Config::zero, &ZeroConfig::link_bandwidth>, kAny, kFree, "bytes a second of a link that stands for PCIe between device and host; auto: none"},
    Option{"zero.placement", at<&Config::zero, &ZeroConfig::placement>, kAny, kPlacements, "auto: what does not fit on the device goes where a step is shortest; device: nothing leaves it; fractions below win"},
    Option{"zero.parameter", at<&Config::zero, &ZeroConfig::parameter>, kNotNegative, kFree, "what of the parameters lies off the device; needs stage 3"},
    Option{"zero.gradient", at<&Config::zero, &ZeroConfig::gradient>, kNotNegative, kFree, "what of the gradients lies off the device; needs stage 2"},
    Option{"zero.optimizer", at<&Config::zero, &ZeroConfig::optimizer>, kNotNegative, kFree, "what of master and moments lies off the device"},

    Option{"checkpoint.every", at<&Config::checkpoint, &CheckpointConfig::every>, kNatural, kFree, "steps, or time such as \"10min\", between checkpoints, from which the same command continues; one at the end, too; 0: none"},
    Option{"checkpoint.keep", at<&Config::checkpoint, &CheckpointConfig::keep>, kPositive, kFree, "newest checkpoints that stay"},
    Option{"checkpoint.memory_every", at<&Config::checkpoint, &CheckpointConfig::memory_every>, kNatural, kFree, "steps between copies of all states in memory that `zero launch` (or -n) holds: ranks that it starts again go on from there; 0: none"},
    Option{"checkpoint.async", at<&Config::checkpoint, &CheckpointConfig::async>, kAny, kFree, "whether states are copied and written while training goes on, where memory allows"},
    Option{"checkpoint.on_error", at<&Config::checkpoint, &CheckpointConfig::on_error>, kAny, kOnErrors, "after a save that failed; continue: said, and tried again when the next is due"},

    Option{"health.non_finite", at<&Config::health, &HealthConfig::non_finite>, kAny, kNonFinites, "after a gradient that is not finite; rewind: to the newest checkpoint, then with other samples"},
    Option{"health.spike", at<&Config::health, &HealthConfig::spike>, kAny, kSpikes, "after a step whose loss or gradient norm is far above the last 128 updates'; nothing is updated then"},
    Option{"health.spike_sigma", at<&Config::health, &HealthConfig::spike_sigma>, kAboveZero, kFree, "how far, in standard deviations"},
    Option{"health.rewind_batches", at<&Config::health, &HealthConfig::rewind_batches>, kNatural, kFree, "steps' worth of samples that a rewind leaves out behind the bad step"},
    Option{"health.max_rewinds", at<&Config::health, &HealthConfig::max_rewinds>, kNatural, kFree, "rewinds to the same checkpoint; one more stops the run"},
    Option{"health.check_replicas", at<&Config::health, &HealthConfig::check_replicas>, kNatural, kFree, "steps between comparisons of what every rank holds whole, below stage 3; also before each checkpoint; 0: none"},
    Option{"health.on_corruption", at<&Config::health, &HealthConfig::on_corruption>, kAny, kCorruptions, "when those differ"},

    Option{"comm.transport", at<&Config::comm, &CommConfig::transport>, kAny, kTransports, "how bytes travel between ranks"},
    Option{"comm.timeout", at<&Config::comm, &CommConfig::timeout>, kAny, kFree, "a rank silent for this long is named and the run ends"},

    Option{"run.dir", at<&Config::run, &RunConfig::dir>, kAny, kFree, "folder of the run: configuration, metrics, report, weights"},
    Option{"run.timeline", at<&Config::run, &RunConfig::timeline>, kAny, kFree, "file in it for what each rank did when, a Chrome trace, such as \"timeline.json\"; empty: none"},
    Option{"run.timeline_steps", at<&Config::run, &RunConfig::timeline_steps>, kPositive, kFree, "steps in it, from the second on"},
    Option{"run.threads", at<&Config::run, &RunConfig::threads>, Range{.lowest = 0, .highest = 4096}, kFree, "compute threads a rank; 0: cores / ranks of this machine"},
    Option{"run.max_restarts", at<&Config::run, &RunConfig::max_restarts>, kNatural, kFree, "with -n: how often all ranks are started again, from the last checkpoint, after one failed"},
    Option{"run.min_ranks", at<&Config::run, &RunConfig::min_ranks>, kNatural, kFree, "with -n: and without a rank that keeps failing, down to so many; accumulation keeps the global batch; 0: never fewer"},
};
// clang-format on

}  // namespace

std::span<const Option> options() {
  return kOptions;
}
std::span<const std::string_view> sections() {
  return kSections;
}

const Option* find_option(std::string_view name) {
  for (const auto& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

}  // namespace zero
