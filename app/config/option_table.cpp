// The option table. A new key needs a member with its default in config.h, a row here, and a line that passes its value
// to an option of the part that uses it. That line is in app/cli/torch_verbs/job.cpp; for comm.* in train.cpp of the
// same folder; for the launcher's keys (run.max_restarts, run.min_ranks) in app/cli/train.cpp. If only some models take
// the key, add it also to app/train/tasks/model_table.h. A key of an update rule is a member in
// zero/optim/rule/rule_keys.h, and the rule's options read it. help_of() adds the models or rules to the help.
// A rule between keys belongs in rules.cpp. File, environment, command line, help, manual page and completion use the
// row.
#include <algorithm>
#include <array>

#include "zero/base/numbers/wire_codec.h"
#include "zero/optim/rule_registry.h"

#include "app/config/choices.h"
#include "app/config/option.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

template <auto Section, auto Member>
// NOLINTNEXTLINE(readability-identifier-naming): it reads as a function
constexpr auto at = +[](Config& config) -> auto& {
  return config.*Section.*Member;
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kInt32 = 2147483647;
constexpr double kExactInDouble = 9007199254740992;  // 2^53: JSON keeps seeds up to it exactly
constexpr double kMostLayers = 10000;                // each layer is a module that takes memory before the plan is made

constexpr Range kAny{};
constexpr Range kPositive{.lowest = 1, .highest = kInt32};
constexpr Range kNatural{.lowest = 0, .highest = kInt32};
constexpr Range kNotNegative{.lowest = 0};
constexpr Range kNotAboveZero{.lowest = -kNoLimit, .highest = 0};
constexpr Range kAboveZero{.lowest = 0, .highest = kNoLimit, .above_lowest = true};
constexpr Range kBelowOne{.lowest = 0, .highest = 1, .below_highest = true};
constexpr Range kShareOfAll{.lowest = 0, .highest = 1, .above_lowest = true};
constexpr std::span<const std::string_view> kFree{};

using Words = std::string_view;
template <const auto& kTable>
constexpr auto kNamesOf = [] {
  std::array<Words, kTable.size()> names;
  std::ranges::transform(kTable, names.begin(), [](const auto& row) { return row.name; });
  return names;
}();
constexpr std::array kModes{Words("sync"), Words("stale"), Words("async"), Words("local")};
constexpr std::array kOuterWires{Words("none"), Words("int8"), Words("int4"), Words("topk")};
constexpr std::array kCuts{Words("range"), Words("whole"), Words("hash"), Words("weighted")};
constexpr std::array kRates{Words("cached"), Words("probe")};
constexpr std::array kPlacements{Words("auto"), Words("device")};
constexpr std::array kMatmuls{Words("ieee"), Words("tf32")};
constexpr std::array kOnErrors{Words("continue"), Words("stop")};
constexpr std::array kTransports{Words("auto"), Words("in_process"), Words("shared_memory"),
                                 Words("mpi"),  Words("gloo"),       Words("nccl")};
constexpr std::array kSections{Words("model"),    Words("data"), Words("train"), Words("optimizer"),
                               Words("schedule"), Words("zero"), Words("sync"),  Words("checkpoint"),
                               Words("health"),   Words("comm"), Words("run")};

constexpr auto kModel = &Config::model;
constexpr auto kData = &Config::data;
constexpr auto kTrain = &Config::train;
constexpr auto kOptimizer = &Config::optimizer;
constexpr auto kSchedule = &Config::schedule;
constexpr auto kSync = &Config::sync;

// clang-format off
constexpr std::array kOptions{
    Option{"model.name", at<kModel, &ModelConfig::name>, kAny, kNamesOf<kModelTable>,
           "architecture of the model"},
    Option{"model.layers", at<kModel, &ModelConfig::layers>, Range{.lowest = 1, .highest = kMostLayers}, kFree,
           "number of layers, or of blocks in a transformer"},
    Option{"model.width", at<kModel, &ModelConfig::width>, kPositive, kFree,
           "embedding width"},
    Option{"model.heads", at<kModel, &ModelConfig::heads>, kPositive, kFree,
           "attention heads of a block; must divide model.width"},
    Option{"model.hidden", at<kModel, &ModelConfig::hidden>, kNatural, kFree,
           "features of a recurrent or feed-forward layer; 0: recurrent 128, llama about 8/3 width, bert 4 width"},
    Option{"model.kv_heads", at<kModel, &ModelConfig::kv_heads>, kNatural, kFree,
           "heads of keys and values; must divide model.heads; 0: same as model.heads"},
    Option{"model.context", at<kModel, &ModelConfig::context>, kPositive, kFree,
           "context length in tokens"},
    Option{"model.vocab", at<kModel, &ModelConfig::vocab>, kNatural, kFree,
           "vocabulary size in tokens; 0: that of the data"},
    Option{"model.dropout", at<kModel, &ModelConfig::dropout>, kBelowOne, kFree,
           "dropout probability of an activation"},
    Option{"model.rope_theta", at<kModel, &ModelConfig::rope_theta>, kAboveZero, kFree,
           "base of rotary positions"},
    Option{"model.norm_eps", at<kModel, &ModelConfig::norm_eps>, kAboveZero, kFree,
           "epsilon in the denominator of norms"},
    Option{"model.tie_embeddings", at<kModel, &ModelConfig::tie_embeddings>, kAny, kFree,
           "weight tying: the head uses the weights of the token embedding"},
    Option{"model.sizes", at<kModel, &ModelConfig::sizes>, kPositive, kFree,
           "features of each layer, the input first"},
    Option{"model.init", at<kModel, &ModelConfig::init>, kAny, kFree,
           "first weights: a safetensors file, an index, or a folder with either; empty: random, from train.seed"},

    Option{"data.kind", at<kData, &DataConfig::kind>, kAny, kWordsOf<kDataKinds>,
           "format of the data (docs/guide/train.md); text: each byte is a token; tokens: .bin of llm.c or nanoGPT"},
    Option{"data.path", at<kData, &DataConfig::path>, kAny, kFree,
           "file or folder of the data, always needed; text and tokens also take a list or a pattern of files"},
    Option{"data.validation", at<kData, &DataConfig::validation>, kBelowOne, kFree,
           "held-out data: a fraction of data.path, or other files or a folder; 0: none"},
    Option{"data.context", at<kData, &DataConfig::context>, kNatural, kFree,
           "sample length in tokens; 0: same as model.context"},
    Option{"data.order", at<kData, &DataConfig::order>, kAny, kWordsOf<kOrders>,
           "order of the samples; shuffled: drawn from train.seed; sequential: as in the data"},
    Option{"data.words", at<kData, &DataConfig::words>, Range{.lowest = 4, .highest = kInt32}, kFree,
           "largest vocabulary of words learned from the training texts, with [PAD], [UNK] and [CLS]"},
    Option{"data.vocab", at<kData, &DataConfig::vocab>, kAny, kFree,
           "WordPiece vocabulary file, one piece on each line, as BERT publishes it; empty: words are learned"},
    Option{"data.lower_case", at<kData, &DataConfig::lower_case>, kAny, kFree,
           "lower-casing of texts, without accents, for data.vocab; auto: if under 1 % of its pieces have capitals"},
    Option{"data.tokenizer", at<kData, &DataConfig::tokenizer>, kAny, kFree,
           "folder of the tokenizer that made the tokens; prompts and samples are then text; empty: token numbers"},
    Option{"data.channels", at<kData, &DataConfig::channels>, Range{.lowest = 1, .highest = 3}, kFree,
           "channels of images; 1: grey; 3: red, green and blue"},
    Option{"data.classes", at<kData, &DataConfig::classes>, kNatural, kFree,
           "number of classes of mnist, tsv or csv; 0: from the labels (a csv of numbers has targets instead)"},
    Option{"data.text_column", at<kData, &DataConfig::text_column>, kAny, kFree,
           "column of the texts of tsv or csv, by name or number from 1; empty: sentence in a tsv, none in a csv"},
    Option{"data.label_column", at<kData, &DataConfig::label_column>, kAny, kFree,
           "column of the labels or targets, by name or number from 1; empty: label if there are texts, else the last"},
    Option{"data.columns", at<kData, &DataConfig::columns>, kAny, kFree,
           "input columns of a csv in their order, by name or number from 1; empty: all but the label's"},
    Option{"data.labels", at<kData, &DataConfig::labels>, kAny, kFree,
           "class names of tsv or csv in their order; empty: the words in data.path in byte order, or numbers"},
    Option{"data.size", at<kData, &DataConfig::size>, Range{.lowest = 0, .highest = kMostPictureSide}, kFree,
           "image side in pixels, or [height, width]; pictures are resized and cropped to it; 0: all have one size"},
    Option{"data.mean", at<kData, &DataConfig::mean>, kAny, kFree,
           "mean of each channel, or one for all: input = (v / 255 - mean) / std for a byte v; []: 0"},
    Option{"data.std", at<kData, &DataConfig::deviation>, kAboveZero, kFree,
           "standard deviation of each channel, or one for all: input = (v / 255 - mean) / std for a byte v; []: 1"},
    Option{"data.augment", at<kData, &DataConfig::augment>, kAny, kWordsOf<kAugments>,
           "random change of training images; shift: by up to 2 pixels; flip: mirrors half of them; shift_flip: both"},

    Option{"train.steps", at<kTrain, &TrainConfig::steps>, kPositive, kFree,
           "optimizer steps of the run"},
    Option{"train.epochs", at<kTrain, &TrainConfig::epochs>, kNatural, kFree,
           "passes over the training data, which set train.steps; 0: not given"},
    Option{"train.batch", at<kTrain, &TrainConfig::batch>, kPositive, kFree,
           "samples of a rank in a micro-batch"},
    Option{"train.share", at<kTrain, &TrainConfig::share>, kPositive, kFree,
           "samples of each rank in a micro-batch; equal: train.batch; auto: by measured speed; [6, 2]: as named"},
    Option{"train.share_most", at<kTrain, &TrainConfig::share_most>, kNatural, kFree,
           "largest number of samples of a rank in a micro-batch, with train.share auto; 0: no limit"},
    Option{"train.accumulate", at<kTrain, &TrainConfig::accumulate>, kPositive, kFree,
           "micro-batches of a rank in a step"},
    Option{"train.reduce", at<kTrain, &TrainConfig::reduce>, kAny, kWordsOf<kReduces>,
           "time of gradient sums over ranks; each: after each micro-batch; last: once a step; auto: each"},
    Option{"train.global_batch", at<kTrain, &TrainConfig::global_batch>, kNatural, kFree,
           "samples of a step over all ranks: batch * accumulate * ranks; sets one that is left out; 0: not given"},
    Option{"train.dtype", at<kTrain, &TrainConfig::dtype>, kAny, kWordsOf<kDTypes>,
           "type of parameters and gradients; master copies are fp32"},
    Option{"train.reduce_dtype", at<kTrain, &TrainConfig::reduce_dtype>, kAny, kWordsOf<kReduceDTypes>,
           "type of the summed gradients of a step; same: rounded once to train.dtype; fp32: not rounded"},
    Option{"train.matmul", at<kTrain, &TrainConfig::matmul>, kAny, kMatmuls,
           "precision of fp32 matrix products on a GPU; ieee: all bits; tf32: 10 bits of each factor, faster"},
    Option{"train.loss_scale", at<kTrain, &TrainConfig::loss_scale>, kAboveZero, kFree,
           "loss scale for train.dtype fp16; dynamic: from 65536, halved at an overflow, doubled after 2,000 updates"},
    Option{"train.clip", at<kTrain, &TrainConfig::clip>, kNotNegative, kFree,
           "gradient clipping: largest global norm; 0: off"},
    Option{"train.label_smoothing", at<kTrain, &TrainConfig::label_smoothing>, kBelowOne, kFree,
           "label smoothing: part of each target spread over all classes or tokens; not in the validation loss"},
    Option{"train.gradient_noise", at<kTrain, &TrainConfig::gradient_noise>, kNotNegative, kFree,
           "gradient noise: its variance v in the first step, and v / (1 + t)^0.55 after t steps; 0: off"},
    Option{"train.ema", at<kTrain, &TrainConfig::ema>, kBelowOne, kFree,
           "decay of a moving average of the weights, such as 0.999, saved as model_ema.safetensors; 0: off"},
    Option{"train.checkpoint_activations", at<kTrain, &TrainConfig::checkpoint_activations>, kAny, kFree,
           "activation checkpointing: the backward pass computes blocks again; less memory, more time, same bits"},
    Option{"train.offload_activations", at<kTrain, &TrainConfig::offload_activations>, kAny, kWordsOf<kActivationTiers>,
           "tier of the inputs of checkpointed blocks until the backward pass; needs checkpoint_activations"},
    Option{"train.seed", at<kTrain, &TrainConfig::seed>, Range{.lowest = 0, .highest = kExactInDouble}, kFree,
           "seed of first weights, sample order and dropout"},
    Option{"train.eval_every", at<kTrain, &TrainConfig::eval_every>, kNatural, kFree,
           "steps between evaluations; 0: only one, at the end"},
    Option{"train.eval_batches", at<kTrain, &TrainConfig::eval_batches>, kNatural, kFree,
           "batches of an evaluation; 0: all validation data"},
    Option{"train.patience", at<kTrain, &TrainConfig::patience>, kNatural, kFree,
           "early stopping: evaluations in a row without a better one before the run ends; 0: off"},
    Option{"train.log_every", at<kTrain, &TrainConfig::log_every>, kPositive, kFree,
           "steps between lines of output"},
    Option{"train.sample", at<kTrain, &TrainConfig::sample>, kNatural, kFree,
           "number of tokens to generate at the end, or of validation samples to show with their predictions; 0: none"},

    Option{"optimizer.name", at<kOptimizer, &OptimizerConfig::name>, kAny, kNamesOf<kRuleTable>,
           "update rule"},
    Option{"optimizer.lr", at<kOptimizer, &OptimizerConfig::lr>, kNotNegative, kFree,
           "highest learning rate"},
    Option{"optimizer.betas", at<kOptimizer, &OptimizerConfig::betas>, kBelowOne, kFree,
           "decay rates of the moments"},
    Option{"optimizer.eps", at<kOptimizer, &OptimizerConfig::eps>, kAboveZero, kFree,
           "epsilon in the denominator of an update"},
    Option{"optimizer.weight_decay", at<kOptimizer, &OptimizerConfig::weight_decay>, kNotNegative, kFree,
           "weight decay of tensors with two or more dimensions"},
    Option{"optimizer.momentum", at<kOptimizer, &OptimizerConfig::momentum>, kBelowOne, kFree,
           "momentum"},
    Option{"optimizer.nesterov", at<kOptimizer, &OptimizerConfig::nesterov>, kAny, kFree,
           "Nesterov's form of momentum"},
    Option{"optimizer.trust_ratio", at<kOptimizer, &OptimizerConfig::trust_ratio>, kNotNegative, kFree,
           "smallest and largest trust ratio: a parameter's norm over the norm of its direction"},
    Option{"optimizer.muon_scale", at<kOptimizer, &OptimizerConfig::muon_scale>, kAny, kWordsOf<kMuonScales>,
           "step length of a matrix; original: sqrt(max(1, rows / columns)); match_rms_adamw: as long as adamw's"},
    Option{"optimizer.adamw_lr", at<kOptimizer, &OptimizerConfig::adamw_lr>, kNotNegative, kFree,
           "highest learning rate of embeddings, heads and vectors, which adamw updates; 0: optimizer.lr"},
    Option{"optimizer.beta2_decay", at<kOptimizer, &OptimizerConfig::beta2_decay>, kNotAboveZero, kFree,
           "exponent of a mean square: the newest squares count with step^beta2_decay"},
    Option{"optimizer.eps1", at<kOptimizer, &OptimizerConfig::eps1>, kAboveZero, kFree,
           "root of the smallest mean square that divides a gradient"},
    Option{"optimizer.eps2", at<kOptimizer, &OptimizerConfig::eps2>, kNotNegative, kFree,
           "smallest root mean square of a parameter that scales its step"},
    Option{"optimizer.clip", at<kOptimizer, &OptimizerConfig::clip>, kAboveZero, kFree,
           "largest root mean square of a direction; a longer direction is shortened to it"},
    Option{"optimizer.group", at<kOptimizer, &OptimizerConfig::group>, kNotNegative, kFree,
           "parameter groups, a table [[optimizer.group]] each: a pattern of names with lr_scale and weight_decay"},

    Option{"schedule.name", at<kSchedule, &ScheduleConfig::name>, kAny, kWordsOf<kLrKinds>,
           "shape of the learning rate after the warm-up (formulas: docs/guide/optimizers.md)"},
    Option{"schedule.warmup", at<kSchedule, &ScheduleConfig::warmup>, kNatural, kFree,
           "number of warm-up steps, in which the learning rate rises to optimizer.lr"},
    Option{"schedule.min_lr", at<kSchedule, &ScheduleConfig::min_lr>, kNotNegative, kFree,
           "learning rate at the last step; a tenth of optimizer.lr if not given"},
    Option{"schedule.power", at<kSchedule, &ScheduleConfig::power>, kAboveZero, kFree,
           "exponent of the polynomial schedule"},
    Option{"schedule.decay", at<kSchedule, &ScheduleConfig::decay>, kNatural, kFree,
           "number of last steps of wsd, in which the learning rate falls; 0: a fifth of the steps after the warm-up"},

    Option{"zero.stage", at<&Config::zero, &ZeroConfig::stage>, Range{.lowest = 0, .highest = 3}, kFree,
           "states that are split over ranks; 0: none; 1: optimizer states; 2: also gradients; 3: also parameters"},
    Option{"zero.group", at<&Config::zero, &ZeroConfig::group>, kNatural, kFree,
           "neighbouring ranks that hold the model once; 0: all ranks; auto: docs/distributed/copies.md"},
    Option{"zero.secondary_group", at<&Config::zero, &ZeroConfig::secondary_group>, kNatural, kFree,
           "neighbouring ranks that keep gathered weights for later gathers of a step (hpZ); needs stage 3; 0: off"},
    Option{"zero.shards", at<&Config::zero, &ZeroConfig::shards>, kAny, kCuts,
           "elements of a rank; range: equal ranges; whole: parameters; hash: hashed blocks; weighted: by weight"},
    Option{"zero.shard_weights", at<&Config::zero, &ZeroConfig::shard_weights>, kPositive, kFree,
           "weight of each rank or server with zero.shards weighted, such as [2, 1, 1]; auto: by available memory"},
    Option{"zero.reduce", at<&Config::zero, &ZeroConfig::reduce>, kAny, kWordsOf<kRankSums>,
           "sum of the ranks' gradients; ordered: in rank order, same bits on each transport; nccl: by NCCL"},
    Option{"zero.device_memory", at<&Config::zero, &ZeroConfig::device_memory>, kAny, kFree,
           "bytes of a rank on the device; auto: its part of 4/5 of the free memory; min: the least that works"},

    Option{"zero.host_memory", at<&Config::zero, &ZeroConfig::host_memory>, kAny, kFree,
           "bytes of a rank on the host: states, activations; auto: docs/guide/place_states.md; min: the least"},
    Option{"zero.disk", at<&Config::zero, &ZeroConfig::disk>, kAny, kFree,
           "folders for states and activations, one on each disk"},
    Option{"zero.disk_memory", at<&Config::zero, &ZeroConfig::disk_memory>, kAny, kFree,
           "bytes of a rank on the disks: states, activations; auto: its part of 9/10 of the free room"},
    Option{"zero.delayed_update", at<&Config::zero, &ZeroConfig::delayed_update>, kAny, kFree,
           "delayed update: each gradient is applied one step late, from step 41 on; needs stage 2"},
    Option{"zero.checksums", at<&Config::zero, &ZeroConfig::checksums>, kAny, kFree,
           "checksums of pages that return from disk; 8 bytes of memory for each page, beyond zero.host_memory"},
    Option{"zero.monitor", at<&Config::zero, &ZeroConfig::monitor>, kAny, kFree,
           "memory monitor: returns memory while another program needs it"},
    Option{"zero.memory_reserve", at<&Config::zero, &ZeroConfig::memory_reserve>, kAny, kFree,
           "memory of this machine to keep free; auto: 1/16 of the free memory, 64 MiB to 1 GiB"},
    Option{"zero.rates", at<&Config::zero, &ZeroConfig::rates>, kAny, kRates,
           "speeds of disk and update in the step model; cached: as measured here before; probe: measured again"},
    Option{"zero.link_bandwidth", at<&Config::zero, &ZeroConfig::link_bandwidth>, kAny, kFree,
           "bytes a second of a simulated link (such as PCIe) between device and host; auto: no link"},
    Option{"zero.placement", at<&Config::zero, &ZeroConfig::placement>, kAny, kPlacements,
           "places of states that do not fit on the device; auto: for the shortest step; device: none leaves it"},
    Option{"zero.parameter", at<&Config::zero, &ZeroConfig::parameter>, kNotNegative, kFree,
           "fractions of the parameters on host and disk; needs stage 3"},
    Option{"zero.gradient", at<&Config::zero, &ZeroConfig::gradient>, kNotNegative, kFree,
           "fractions of the gradients on host and disk; needs stage 2"},
    Option{"zero.optimizer", at<&Config::zero, &ZeroConfig::optimizer>, kNotNegative, kFree,
           "fractions of master copies and moments on host and disk"},

    Option{"sync.mode", at<kSync, &SyncConfig::mode>, kAny, kModes,
           "kind of update; sync: mean over ranks; stale: the same, late; async: each gradient; local: outer steps"},
    Option{"sync.servers", at<kSync, &SyncConfig::servers>, kNatural, kFree,
           "number of servers: the first ranks, which hold and update all states; stale and async: 1 if not given"},
    Option{"sync.staleness", at<kSync, &SyncConfig::staleness>, kNatural, kFree,
           "staleness in steps; stale: from a gradient's weights to its update; async: lead over the slowest worker"},
    Option{"sync.quorum", at<kSync, &SyncConfig::quorum>, kNatural, kFree,
           "gradients that an update waits for, in sync with servers; later gradients are dropped; 0: all"},
    Option{"sync.stale_lr", at<kSync, &SyncConfig::stale_lr>, kNotNegative, kFree,
           "exponent that reduces old gradients in async: a gradient of age a counts with lr / (1 + a)^stale_lr"},
    Option{"sync.compensation", at<kSync, &SyncConfig::compensation>, kNotNegative, kFree,
           "factor c that corrects old gradients in async (DC-ASGD): g + c * g * g * change of the weights; 0: off"},
    Option{"sync.local_steps", at<kSync, &SyncConfig::local_steps>, kPositive, kFree,
           "steps from one outer step to the next, with sync.mode local"},
    Option{"sync.outer_lr", at<kSync, &SyncConfig::outer_lr>, kAboveZero, kFree,
           "learning rate of the outer step; 1 with sync.outer_momentum 0: the mean of the copies"},
    Option{"sync.outer_momentum", at<kSync, &SyncConfig::outer_momentum>, kBelowOne, kFree,
           "Nesterov momentum of the outer step"},
    Option{"sync.fragments", at<kSync, &SyncConfig::fragments>, kPositive, kFree,
           "parts of the model that sync.mode local merges at different times, each once in sync.local_steps"},
    Option{"sync.overlap", at<kSync, &SyncConfig::overlap>, kNatural, kFree,
           "steps of a copy while an outer step's sums are sent; at most sync.local_steps / fragments; 0: copies wait"},
    Option{"sync.mix", at<kSync, &SyncConfig::mix>, kBelowOne, kFree,
           "weight of a copy's own values with sync.overlap: new = mix * own + (1 - mix) * merged"},

    Option{"checkpoint.every", at<&Config::checkpoint, &CheckpointConfig::every>, kNatural, kFree,
           "steps, or time such as \"10min\", between two checkpoints; the last step also has one; 0: none"},
    Option{"checkpoint.keep", at<&Config::checkpoint, &CheckpointConfig::keep>, kPositive, kFree,
           "number of newest checkpoints to keep"},
    Option{"checkpoint.keep_best", at<&Config::checkpoint, &CheckpointConfig::keep_best>, kAny, kWordsOf<kBestMeasures>,
           "measure of the best checkpoint, which is kept beside the newest: validation loss or accuracy"},
    Option{"checkpoint.memory_every", at<&Config::checkpoint, &CheckpointConfig::memory_every>, kNatural, kFree,
           "steps between checkpoints in the launcher's memory, from which restarted ranks continue; 0: none"},
    Option{"checkpoint.async", at<&Config::checkpoint, &CheckpointConfig::async>, kAny, kFree,
           "background saves, if memory has room for a copy of the states"},
    Option{"checkpoint.on_error", at<&Config::checkpoint, &CheckpointConfig::on_error>, kAny, kOnErrors,
           "action after a failed save; continue: print a line, and save again at the next time; stop: end the run"},

    Option{"health.non_finite", at<&Config::health, &HealthConfig::non_finite>, kAny, kWordsOf<kNonFinites>,
           "action after a gradient that is not finite; skip: no update; rewind: newest checkpoint; stop: end the run"},
    Option{"health.spike", at<&Config::health, &HealthConfig::spike>, kAny, kWordsOf<kSpikes>,
           "action after a loss or norm far above the last 128; ignore: update; others: as in health.non_finite"},
    Option{"health.spike_sigma", at<&Config::health, &HealthConfig::spike_sigma>, kAboveZero, kFree,
           "distance of a spike from the mean, in standard deviations"},
    Option{"health.rewind_batches", at<&Config::health, &HealthConfig::rewind_batches>, kNatural, kFree,
           "number of further steps, after the bad step, whose samples a rewind leaves out"},
    Option{"health.max_rewinds", at<&Config::health, &HealthConfig::max_rewinds>, kNatural, kFree,
           "largest number of rewinds to one checkpoint; the next rewind stops the run"},
    Option{"health.check_replicas", at<&Config::health, &HealthConfig::check_replicas>, kNatural, kFree,
           "steps between comparisons of states that several ranks hold; also before each checkpoint; 0: none"},
    Option{"health.on_corruption", at<&Config::health, &HealthConfig::on_corruption>, kAny, kWordsOf<kCorruptions>,
           "action if health.check_replicas finds a difference; stop: end the run; rewind: newest checkpoint"},

    Option{"comm.transport", at<&Config::comm, &CommConfig::transport>, kAny, kTransports,
           "transport of messages between ranks"},
    Option{"comm.timeout", at<&Config::comm, &CommConfig::timeout>, kAny, kFree,
           "longest wait for a rank; after it the run ends, and names the rank"},
    Option{"comm.gather_wire", at<&Config::comm, &CommConfig::gather_wire>, kAny, kWireCodecNames,
           "codec of gathered parameters; int8 sends 3.9 times fewer bytes than fp32, int4 7.8 times; needs stage 3"},
    Option{"comm.reduce_wire", at<&Config::comm, &CommConfig::reduce_wire>, kAny, kWireCodecNames,
           "codec of each rank's gradients before they are summed in fp32; with zero.group only within a group"},
    Option{"comm.outer_wire", at<&Config::comm, &CommConfig::outer_wire>, kAny, kOuterWires,
           "codec between copies of the model; topk: only the largest elements of outer steps' differences"},
    Option{"comm.outer_topk", at<&Config::comm, &CommConfig::outer_topk>, kShareOfAll, kFree,
           "fraction of each block of 1,024 elements that comm.outer_wire topk sends"},

    Option{"run.dir", at<&Config::run, &RunConfig::dir>, kAny, kFree,
           "folder of the run: configuration, metrics, report, weights, checkpoints"},
    Option{"run.timeline", at<&Config::run, &RunConfig::timeline>, kAny, kFree,
           "file in run.dir for a Chrome trace, such as \"timeline.json\"; empty: one step, in timeline.json"},
    Option{"run.timeline_steps", at<&Config::run, &RunConfig::timeline_steps>, kPositive, kFree,
           "number of steps in the file of run.timeline, from the second step on"},
    Option{"run.tensorboard", at<&Config::run, &RunConfig::tensorboard>, kAny, kFree,
           "event files for TensorBoard, in the folder tensorboard of run.dir"},
    Option{"run.device", at<&Config::run, &RunConfig::device>, kAny, kFree,
           "device of the model: cpu; cuda: a GPU a rank; cuda:1: GPU 1 for all; auto: cuda if possible, else cpu"},
    Option{"run.deterministic", at<&Config::run, &RunConfig::deterministic>, kAny, kFree,
           "deterministic operators only, on a GPU; an operator without such a form ends the run"},
    Option{"run.threads", at<&Config::run, &RunConfig::threads>, Range{.lowest = 0, .highest = 4096}, kFree,
           "compute threads of a rank; 0: cores / ranks of this machine"},
    Option{"run.max_restarts", at<&Config::run, &RunConfig::max_restarts>, kNatural, kFree,
           "number of restarts after a failure; needs -n (`zero launch` has --max-restarts)"},
    Option{"run.min_ranks", at<&Config::run, &RunConfig::min_ranks>, kNatural, kFree,
           "fewest ranks to continue with, without a rank that keeps failing; 0: never fewer; needs -n"},
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
