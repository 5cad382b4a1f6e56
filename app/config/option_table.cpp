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
    Option{"model.name", at<kModel, &ModelConfig::name>, kAny, kNamesOf<kModelTable>, "architecture of the model"},
    Option{"model.layers", at<kModel, &ModelConfig::layers>, Range{.lowest = 1, .highest = kMostLayers}, kFree, "layers, or blocks of a transformer"},
    Option{"model.width", at<kModel, &ModelConfig::width>, kPositive, kFree, "features of a token"},
    Option{"model.heads", at<kModel, &ModelConfig::heads>, kPositive, kFree, "attention heads of a block; must divide width"},
    Option{"model.hidden", at<kModel, &ModelConfig::hidden>, kNatural, kFree, "features of each layer of a recurrent network (0: 128), or of the feed-forward part of a block (0: of a llama 8/3 of width, up to a multiple of 32; of a bert 4 times width)"},
    Option{"model.kv_heads", at<kModel, &ModelConfig::kv_heads>, kNatural, kFree, "heads of keys and values; must divide heads; 0: as many as heads"},
    Option{"model.context", at<kModel, &ModelConfig::context>, kPositive, kFree, "most tokens that a model of tokens sees at once"},
    Option{"model.vocab", at<kModel, &ModelConfig::vocab>, kNatural, kFree, "number of different tokens; 0: as many as the data has"},
    Option{"model.dropout", at<kModel, &ModelConfig::dropout>, kBelowOne, kFree, "probability with which an activation is dropped"},
    Option{"model.rope_theta", at<kModel, &ModelConfig::rope_theta>, kAboveZero, kFree, "base of rotary positions"},
    Option{"model.norm_eps", at<kModel, &ModelConfig::norm_eps>, kAboveZero, kFree, "guard against division by zero in norms"},
    Option{"model.tie_embeddings", at<kModel, &ModelConfig::tie_embeddings>, kAny, kFree, "use the token embedding as the head, too"},
    Option{"model.sizes", at<kModel, &ModelConfig::sizes>, kPositive, kFree, "features of each layer, the input first"},
    Option{"model.init", at<kModel, &ModelConfig::init>, kAny, kFree, "first weights: a safetensors file, the index of several, or a folder with either; empty: random, from train.seed"},

    Option{"data.kind", at<kData, &DataConfig::kind>, kAny, kWordsOf<kDataKinds>, "format of the data. text: each byte is a token; tokens: llm.c or nanoGPT .bin; mnist: IDX; images: a folder of PNG or JPEG files for each class; csv: columns of numbers and a target, a number or a class, or with text_column texts and their classes; tsv: columns sentence and label, as SST-2; word_order: lines of a text; their class is whether their words are in order"},
    Option{"data.path", at<kData, &DataConfig::path>, kAny, kFree, "file of the data, or the folder of MNIST's files or of the folders of images; always needed. text and tokens may lie in several files, which are read as one in their order: a list, or a pattern"},
    Option{"data.validation", at<kData, &DataConfig::validation>, kBelowOne, kFree, "data for evaluation: a fraction from the end of data.path, of images and unevenly sorted classes from the end of each class, or a path of its own, or several, which data.path does not read; of the folder of MNIST's files t10k-*; 0: none"},
    Option{"data.context", at<kData, &DataConfig::context>, kNatural, kFree, "tokens of a sample; 0: as many as model.context"},
    Option{"data.order", at<kData, &DataConfig::order>, kAny, kWordsOf<kOrders>, "order of the samples; it depends on the seed and the position alone"},
    Option{"data.words", at<kData, &DataConfig::words>, Range{.lowest = 4, .highest = kInt32}, kFree, "most words in the vocabulary that is learned from the training texts of tsv, csv or word_order, [PAD], [UNK] and [CLS] included"},
    Option{"data.vocab", at<kData, &DataConfig::vocab>, kAny, kFree, "WordPiece vocabulary of tsv, csv or word_order, cased or uncased, a piece a line, as BERT publishes it; empty: words are learned"},
    Option{"data.lower_case", at<kData, &DataConfig::lower_case>, kAny, kFree, "before texts are cut into pieces of data.vocab: make letters small, and take off their accents (do_lower_case of BERT's tokenizers). auto: if fewer than one piece in a hundred has a capital letter"},
    Option{"data.tokenizer", at<kData, &DataConfig::tokenizer>, kAny, kFree, "folder of the tokenizer that made the tokens (`zero tokenize`): prompts and generated text are then words; empty: they are numbers of tokens"},
    Option{"data.channels", at<kData, &DataConfig::channels>, Range{.lowest = 1, .highest = 3}, kFree, "channels of images. 1: grey; 3: red, green and blue"},
    Option{"data.classes", at<kData, &DataConfig::classes>, kNatural, kFree, "number of classes of mnist, tsv or csv, whose labels are 0 and up: another label is refused, and a class without a sample counts, too; 0: as many as the training labels make. With csv whole numbers are targets, and classes only if this is given"},
    Option{"data.text_column", at<kData, &DataConfig::text_column>, kAny, kFree, "column of the texts of tsv or csv: its name in the first line, or its number from 1. Empty: sentence in a tsv; a csv then has numbers"},
    Option{"data.label_column", at<kData, &DataConfig::label_column>, kAny, kFree, "column of the labels of tsv or csv: its name in the first line, or its number from 1. Empty: label beside texts, else the last"},
    Option{"data.columns", at<kData, &DataConfig::columns>, kAny, kFree, "columns of a csv that are the inputs, in this order: names in the first line, or numbers from 1. Empty: all but the label's"},
    Option{"data.labels", at<kData, &DataConfig::labels>, kAny, kFree, "names of the classes of tsv or csv, in their order: labels are these words, or their numbers from 0. Empty: the words of data.path in the order of their bytes, or numbers"},
    Option{"data.size", at<kData, &DataConfig::size>, Range{.lowest = 0, .highest = kMostPictureSide}, kFree, "pixels on a side of each image, or [height, width]: pictures of any size are resized until they cover it, and their middle is cut out; 0: all pictures have one size"},
    Option{"data.mean", at<kData, &DataConfig::mean>, kAny, kFree, "mean of each channel, or one for all, of values from 0 to 1: an input is (v / 255 - mean) / std of a pixel's byte v; []: 0"},
    Option{"data.std", at<kData, &DataConfig::deviation>, kAboveZero, kFree, "standard deviation of each channel, or one for all, by which inputs are divided after data.mean is subtracted; []: 1"},
    Option{"data.augment", at<kData, &DataConfig::augment>, kAny, kWordsOf<kAugments>, "random change of each training image of mnist or images, anew in each epoch. shift: by up to 2 pixels in each direction; flip: left and right change places in every second image; shift_flip: both"},

    Option{"train.steps", at<kTrain, &TrainConfig::steps>, kPositive, kFree, "optimizer steps of the run"},
    Option{"train.epochs", at<kTrain, &TrainConfig::epochs>, kNatural, kFree, "passes over the training data, instead of train.steps, which follow from it; 0: not given"},
    Option{"train.batch", at<kTrain, &TrainConfig::batch>, kPositive, kFree, "samples that a rank takes in a micro-batch"},
    Option{"train.share", at<kTrain, &TrainConfig::share>, kPositive, kFree, "how the ranks share the batch * ranks samples of a micro-batch. equal: evenly; auto: by the speed that each rank shows, and again when one slows down; [6, 2]: as named"},
    Option{"train.share_most", at<kTrain, &TrainConfig::share_most>, kNatural, kFree, "with share auto, most samples that a rank takes in a micro-batch, so that its activations fit its memory; 0: any number"},
    Option{"train.accumulate", at<kTrain, &TrainConfig::accumulate>, kPositive, kFree, "micro-batches that a rank takes in a step"},
    Option{"train.reduce", at<kTrain, &TrainConfig::reduce>, kAny, kWordsOf<kReduces>, "when the gradients of micro-batches are summed over ranks. each: after every micro-batch; last: after the last one of a step, which sends less, holds whole gradients, and gives other last bits; auto: each"},
    Option{"train.global_batch", at<kTrain, &TrainConfig::global_batch>, kNatural, kFree, "samples of a step over all ranks: batch * accumulate * ranks. One of batch, accumulate and global_batch may be left out; 0: not given"},
    Option{"train.dtype", at<kTrain, &TrainConfig::dtype>, kAny, kWordsOf<kDTypes>, "type of parameters and gradients; master copies and moments are always fp32"},
    Option{"train.reduce_dtype", at<kTrain, &TrainConfig::reduce_dtype>, kAny, kWordsOf<kReduceDTypes>, "type of the sum of a step's gradients over ranks and micro-batches, which is made in fp32 (with zero.reduce nccl, over ranks in train.dtype). same: the sum is rounded once, to train.dtype, before the norm and the update; fp32: it is not rounded, for two more bytes an element where accumulate is 1"},
    Option{"train.matmul", at<kTrain, &TrainConfig::matmul>, kAny, kMatmuls, "products of fp32 matrices on a GPU. ieee: all bits of the factors count; tf32: 10 bits of each, which is several times as fast. A CPU has ieee alone"},
    Option{"train.loss_scale", at<kTrain, &TrainConfig::loss_scale>, kAboveZero, kFree, "factor of the loss in the backward pass, for train.dtype fp16. dynamic: 65536 at first, halved when a gradient overflows (that step updates nothing), doubled after 2,000 updates"},
    Option{"train.clip", at<kTrain, &TrainConfig::clip>, kNotNegative, kFree, "highest norm of the gradient of all parameters; 0: no clipping"},
    Option{"train.label_smoothing", at<kTrain, &TrainConfig::label_smoothing>, kBelowOne, kFree, "part of each target that is spread evenly over all classes or tokens; the validation loss is without it"},
    Option{"train.gradient_noise", at<kTrain, &TrainConfig::gradient_noise>, kNotNegative, kFree, "variance of the Gaussian noise that is added to each element of the first step's gradient, before it is clipped; after t steps it is this / (1 + t)^0.55. Such as 0.01; 0: none"},
    Option{"train.ema", at<kTrain, &TrainConfig::ema>, kBelowOne, kFree, "decay of a moving average of the weights, such as 0.999: evaluated beside them, and written as model_ema.safetensors; 4 bytes a parameter, split as the optimizer's states; 0: none"},
    Option{"train.checkpoint_activations", at<kTrain, &TrainConfig::checkpoint_activations>, kAny, kFree, "compute a transformer's blocks again in the backward pass: less memory, more time, the same bits"},
    Option{"train.offload_activations", at<kTrain, &TrainConfig::offload_activations>, kAny, kWordsOf<kActivationTiers>, "tier for the inputs of checkpointed blocks until the backward pass; disk: in zero.disk. They count in host_memory or disk_memory. Needs checkpoint_activations"},
    Option{"train.seed", at<kTrain, &TrainConfig::seed>, Range{.lowest = 0, .highest = kExactInDouble}, kFree, "seed of first weights, order of samples and dropout"},
    Option{"train.eval_every", at<kTrain, &TrainConfig::eval_every>, kNatural, kFree, "steps between two evaluations; 0: one at the end alone"},
    Option{"train.eval_batches", at<kTrain, &TrainConfig::eval_batches>, kNatural, kFree, "batches of an evaluation; 0: all validation data"},
    Option{"train.patience", at<kTrain, &TrainConfig::patience>, kNatural, kFree, "evaluations in a row without a better validation loss after which the run ends (early stopping); 0: it never does. With checkpoint.keep_best accuracy the accuracy counts instead"},
    Option{"train.log_every", at<kTrain, &TrainConfig::log_every>, kPositive, kFree, "steps between two lines of output"},
    Option{"train.sample", at<kTrain, &TrainConfig::sample>, kNatural, kFree, "tokens to generate at the end of the run; of a model of classes or numbers, validation samples to show beside what it predicts"},

    Option{"optimizer.name", at<kOptimizer, &OptimizerConfig::name>, kAny, kNamesOf<kRuleTable>, "update rule"},
    Option{"optimizer.lr", at<kOptimizer, &OptimizerConfig::lr>, kNotNegative, kFree, "highest learning rate"},
    Option{"optimizer.betas", at<kOptimizer, &OptimizerConfig::betas>, kBelowOne, kFree, "decay rates of the moments"},
    Option{"optimizer.eps", at<kOptimizer, &OptimizerConfig::eps>, kAboveZero, kFree, "guard against division by zero"},
    Option{"optimizer.weight_decay", at<kOptimizer, &OptimizerConfig::weight_decay>, kNotNegative, kFree, "weight decay of tensors with two or more dimensions"},
    Option{"optimizer.momentum", at<kOptimizer, &OptimizerConfig::momentum>, kBelowOne, kFree, "momentum"},
    Option{"optimizer.nesterov", at<kOptimizer, &OptimizerConfig::nesterov>, kAny, kFree, "Nesterov's form of momentum"},
    Option{"optimizer.trust_ratio", at<kOptimizer, &OptimizerConfig::trust_ratio>, kNotNegative, kFree, "least and most trust ratio: a parameter's norm over the norm of its direction"},
    Option{"optimizer.muon_scale", at<kOptimizer, &OptimizerConfig::muon_scale>, kAny, kWordsOf<kMuonScales>, "length of a matrix's steps. original: sqrt(max(1, rows / columns)); match_rms_adamw: 0.2 * sqrt(max(rows, columns)), as long as adamw's"},
    Option{"optimizer.adamw_lr", at<kOptimizer, &OptimizerConfig::adamw_lr>, kNotNegative, kFree, "highest learning rate of the parameters that adamw updates, which are embeddings, heads and vectors; 0: optimizer.lr"},
    Option{"optimizer.beta2_decay", at<kOptimizer, &OptimizerConfig::beta2_decay>, kNotAboveZero, kFree, "a mean square counts the newest squares with step^beta2_decay"},
    Option{"optimizer.eps1", at<kOptimizer, &OptimizerConfig::eps1>, kAboveZero, kFree, "root of the least mean square by which a gradient is divided"},
    Option{"optimizer.eps2", at<kOptimizer, &OptimizerConfig::eps2>, kNotNegative, kFree, "least root mean square of a parameter that its step is in proportion to"},
    Option{"optimizer.clip", at<kOptimizer, &OptimizerConfig::clip>, kAboveZero, kFree, "root mean square of a direction above which it is shortened to that"},
    Option{"optimizer.group", at<kOptimizer, &OptimizerConfig::group>, kNotNegative, kFree, "groups of parameters with their own lr_scale and weight_decay, a table [[optimizer.group]] each; parameters = a pattern of names such as \"*.bias\". The first group that fits a parameter counts"},

    Option{"schedule.name", at<kSchedule, &ScheduleConfig::name>, kAny, kWordsOf<kLrKinds>, "shape of the learning rate after the warm-up: lr, or down to min_lr along a line, half a cosine, (1 - part)^power, 1 / sqrt(step), one_cycle's cosine, or wsd's line at the end (formulas: docs/guide/optimizers.md)"},
    Option{"schedule.warmup", at<kSchedule, &ScheduleConfig::warmup>, kNatural, kFree, "number of first steps, in which the learning rate rises to optimizer.lr: linearly, or with one_cycle as half a cosine"},
    Option{"schedule.min_lr", at<kSchedule, &ScheduleConfig::min_lr>, kNotNegative, kFree, "learning rate at the last step; a tenth of optimizer.lr if not given"},
    Option{"schedule.power", at<kSchedule, &ScheduleConfig::power>, kAboveZero, kFree, "polynomial: the power to which the remaining part of the run is raised"},
    Option{"schedule.decay", at<kSchedule, &ScheduleConfig::decay>, kNatural, kFree, "wsd: number of last steps, in which the learning rate falls; 0: a fifth of the steps after the warm-up"},

    Option{"zero.stage", at<&Config::zero, &ZeroConfig::stage>, Range{.lowest = 0, .highest = 3}, kFree, "states that are split over ranks. 0: none; 1: optimizer state; 2: gradients, too; 3: parameters, too"},
    Option{"zero.group", at<&Config::zero, &ZeroConfig::group>, kNatural, kFree, "ranks that hold the model once, neighbours such as those of a machine: parameters are gathered among them alone, and only gradients cross to the other groups. Must divide the number of ranks; 0: all ranks; auto: 0, but of several machines the ranks of one, where they have room for the model's states and a step's exchange takes no longer: on CPUs, from stage 1 on, without secondary_group, gather_wire, reduce_wire, servers and local steps"},
    Option{"zero.secondary_group", at<&Config::zero, &ZeroConfig::secondary_group>, kNatural, kFree, "neighbours, such as the ranks of a machine, that keep all gathered weights together once more between a unit's first gather and its update: later gathers of a step go over them alone (hpZ). Needs stage 3 and memory for that part of the weights; must divide the ranks that hold the model once, and be neither 1 nor all of them; 0: none do"},
    Option{"zero.shards", at<&Config::zero, &ZeroConfig::shards>, kAny, kCuts, "which elements a rank owns; with servers, a server. range: equal ranges of each unit; whole: whole parameters, the largest first to the rank with the least; hash: blocks of 64 to 4,096 elements by consistent hashing, so that few move when a rank joins or leaves (stage 3); weighted: ranges in proportion to shard_weights"},
    Option{"zero.shard_weights", at<&Config::zero, &ZeroConfig::shard_weights>, kPositive, kFree, "with shards weighted, a weight for each rank that holds the model once, or for each server, such as [2, 1, 1]: it owns that share of each unit. auto: the memory that each rank may take, as measured when the run starts"},
    Option{"zero.reduce", at<&Config::zero, &ZeroConfig::reduce>, kAny, kWordsOf<kRankSums>, "who adds gradients of ranks up. ordered: zero.cpp, in rank order and fp32, with the same bits over every transport; nccl: NCCL itself, in train.dtype and an order of its own, with comm.transport nccl: fewer bytes of the GPU's memory are read and written, no staging is needed, and bits depend on NCCL and on the number of GPUs"},
    Option{"zero.device_memory", at<&Config::zero, &ZeroConfig::device_memory>, kAny, kFree, "bytes that a rank may hold on the device: states, gathered units, staging. Other states go to the host or to disk. auto: four fifths of the free memory, divided among the machine's ranks; min: the least that works (states leave the device where host_memory is in bytes, or a disk is named)"},

    Option{"zero.host_memory", at<&Config::zero, &ZeroConfig::host_memory>, kAny, kFree, "bytes that a rank may hold on the host: states that leave the device, and activations. auto: what a device_memory in bytes leaves of those four fifths (beside auto or min, only fractions put states there; beside a GPU: a rank's four fifths of the machine's free memory); min: the least that works"},
    Option{"zero.disk", at<&Config::zero, &ZeroConfig::disk>, kAny, kFree, "folders for states and activations, one on each disk"},
    Option{"zero.disk_memory", at<&Config::zero, &ZeroConfig::disk_memory>, kAny, kFree, "most bytes of states and activations that a rank may put on the disks; auto: nine tenths of the free room, divided among the ranks"},
    Option{"zero.delayed_update", at<&Config::zero, &ZeroConfig::delayed_update>, kAny, kFree, "apply each gradient one step late, while the next step computes, from step 41 on; needs stage 2"},
    Option{"zero.checksums", at<&Config::zero, &ZeroConfig::checksums>, kAny, kFree, "verify each page that returns from disk; costs 8 bytes of memory a page, beyond host_memory"},
    Option{"zero.monitor", at<&Config::zero, &ZeroConfig::monitor>, kAny, kFree, "give memory back while another program needs it: gathered units, and states where the placement is automatic and a disk is named"},
    Option{"zero.memory_reserve", at<&Config::zero, &ZeroConfig::memory_reserve>, kAny, kFree, "memory of this machine to keep free; other programs may take half of it in the time of a step; auto: a sixteenth of the free memory, 64 MiB to 1 GiB"},
    Option{"zero.rates", at<&Config::zero, &ZeroConfig::rates>, kAny, kRates, "speeds of disk and update, for the step model. cached: as measured on this machine before; probe: measure again"},
    Option{"zero.link_bandwidth", at<&Config::zero, &ZeroConfig::link_bandwidth>, kAny, kFree, "bytes a second of a link between device and host that stands for PCIe; auto: no link"},
    Option{"zero.placement", at<&Config::zero, &ZeroConfig::placement>, kAny, kPlacements, "auto: states that do not fit on the device go where a step is shortest; device: no state leaves it. The fractions below win"},
    Option{"zero.parameter", at<&Config::zero, &ZeroConfig::parameter>, kNotNegative, kFree, "fractions of the parameters that lie on host and disk; needs stage 3"},
    Option{"zero.gradient", at<&Config::zero, &ZeroConfig::gradient>, kNotNegative, kFree, "fractions of the gradients that lie on host and disk; needs stage 2"},
    Option{"zero.optimizer", at<&Config::zero, &ZeroConfig::optimizer>, kNotNegative, kFree, "fractions of master copies and moments that lie on host and disk"},

    Option{"sync.mode", at<kSync, &SyncConfig::mode>, kAny, kModes, "when ranks wait for each other. sync: each gradient is the mean over all ranks; stale: the same, and workers may be staleness steps ahead of the weights that they read; async: servers apply each worker's gradient as it comes; local: copies of the model train apart, and an outer step merges them after every local_steps steps (DiLoCo), for slow links between them. With local and zero.group 0 each rank is a copy"},
    Option{"sync.servers", at<kSync, &SyncConfig::servers>, kNatural, kFree, "ranks that hold and update all states for the others, the workers: the first ones. 0: none; stale and async have one if it is not given"},
    Option{"sync.staleness", at<kSync, &SyncConfig::staleness>, kNatural, kFree, "stale: steps between the weights that a gradient is computed with and its update; async: steps by which the fastest worker may be ahead of the slowest"},
    Option{"sync.quorum", at<kSync, &SyncConfig::quorum>, kNatural, kFree, "sync with servers: gradients that an update waits for; those of slower workers are dropped. 0: all"},
    Option{"sync.stale_lr", at<kSync, &SyncConfig::stale_lr>, kNotNegative, kFree, "async: a gradient that is a updates old counts with lr / (1 + a)^stale_lr"},
    Option{"sync.compensation", at<kSync, &SyncConfig::compensation>, kNotNegative, kFree, "async: a gradient g of weights that have moved by d since is applied as g + compensation * g * g * d (DC-ASGD); 0: as it is"},
    Option{"sync.local_steps", at<kSync, &SyncConfig::local_steps>, kPositive, kFree, "steps from one outer step to the next, with sync.mode local"},
    Option{"sync.outer_lr", at<kSync, &SyncConfig::outer_lr>, kAboveZero, kFree, "learning rate of the outer step; 1 with outer_momentum 0: the mean of the copies"},
    Option{"sync.outer_momentum", at<kSync, &SyncConfig::outer_momentum>, kBelowOne, kFree, "momentum of the outer step, in Nesterov's form"},
    Option{"sync.fragments", at<kSync, &SyncConfig::fragments>, kPositive, kFree, "with sync.mode local: parts of the model that are merged at different times, each once in local_steps steps. What copies send each other comes in as many smaller parts"},
    Option{"sync.overlap", at<kSync, &SyncConfig::overlap>, kNatural, kFree, "with sync.mode local: steps that copies take while the sums of an outer step are on their way; at most local_steps / fragments. 0: they wait"},
    Option{"sync.mix", at<kSync, &SyncConfig::mix>, kBelowOne, kFree, "with sync.overlap: the share of a copy's own weights in those that it goes on with, the rest being the merged ones. 0: the merged ones alone"},

    Option{"checkpoint.every", at<&Config::checkpoint, &CheckpointConfig::every>, kNatural, kFree, "steps, or time such as \"10min\", between two checkpoints; the last step has one, too. The same command continues from the newest; 0: none"},
    Option{"checkpoint.keep", at<&Config::checkpoint, &CheckpointConfig::keep>, kPositive, kFree, "number of checkpoints to keep, the newest ones"},
    Option{"checkpoint.keep_best", at<&Config::checkpoint, &CheckpointConfig::keep_best>, kAny, kWordsOf<kBestMeasures>, "keep the checkpoint with the best validation loss or accuracy, too: an evaluation that is better than all before saves one. Of equal values the earliest counts"},
    Option{"checkpoint.memory_every", at<&Config::checkpoint, &CheckpointConfig::memory_every>, kNatural, kFree, "steps between two in-memory checkpoints, in the launcher's memory (`zero launch` on one or several machines, or -n). Ranks that it starts again go on from there; 0: none"},
    Option{"checkpoint.async", at<&Config::checkpoint, &CheckpointConfig::async>, kAny, kFree, "write checkpoints while training goes on, where memory has room for a copy of the states"},
    Option{"checkpoint.on_error", at<&Config::checkpoint, &CheckpointConfig::on_error>, kAny, kOnErrors, "what to do after a failed save. continue: print a line, and save again at the next time; stop: end the run"},

    Option{"health.non_finite", at<&Config::health, &HealthConfig::non_finite>, kAny, kWordsOf<kNonFinites>, "what to do after a gradient that is not finite. skip: no update; rewind: load the newest checkpoint, and go on without the samples of the bad step; stop: end the run"},
    Option{"health.spike", at<&Config::health, &HealthConfig::spike>, kAny, kWordsOf<kSpikes>, "what to do after a loss or gradient norm far above those of the last 128 updates. ignore: update all the same; skip, rewind, stop: as in non_finite"},
    Option{"health.spike_sigma", at<&Config::health, &HealthConfig::spike_sigma>, kAboveZero, kFree, "distance of a spike from the mean, in standard deviations"},
    Option{"health.rewind_batches", at<&Config::health, &HealthConfig::rewind_batches>, kNatural, kFree, "number of further steps, behind the bad one, whose samples a rewind leaves out"},
    Option{"health.max_rewinds", at<&Config::health, &HealthConfig::max_rewinds>, kNatural, kFree, "most rewinds to one checkpoint; one more stops the run"},
    Option{"health.check_replicas", at<&Config::health, &HealthConfig::check_replicas>, kNatural, kFree, "steps between two comparisons of the states that every rank holds whole (below stage 3), and with zero.group of shards over the groups; also before each checkpoint; 0: none"},
    Option{"health.on_corruption", at<&Config::health, &HealthConfig::on_corruption>, kAny, kWordsOf<kCorruptions>, "what to do when check_replicas has found a difference. stop: end the run; rewind: load the newest checkpoint"},

    Option{"comm.transport", at<&Config::comm, &CommConfig::transport>, kAny, kTransports, "transport of bytes between ranks"},
    Option{"comm.timeout", at<&Config::comm, &CommConfig::timeout>, kAny, kFree, "longest time to wait for a rank; then the rank is named and the run ends"},
    Option{"comm.gather_wire", at<&Config::comm, &CommConfig::gather_wire>, kAny, kWireCodecNames, "codec of parameters on their way to the ranks that compute with them: int8 (3.9 times fewer bytes than fp32) or int4 (7.8 times), in blocks of 256 with a scale each. Each rank keeps its shard exact, and evaluations use exact parameters; needs stage 3"},
    Option{"comm.reduce_wire", at<&Config::comm, &CommConfig::reduce_wire>, kAny, kWireCodecNames, "codec of gradients on their way into their sum: each rank's contribution is rounded once, stochastically, and the sum is made in fp32. With zero.group, within a group; between groups outer_wire is the codec"},
    Option{"comm.outer_wire", at<&Config::comm, &CommConfig::outer_wire>, kAny, kOuterWires, "codec of what copies of the model send each other: with zero.group the gradients between groups, with sync.mode local the differences of an outer step. topk, for outer steps: each copy sends the largest elements of its difference, and adds the rest to its next one"},
    Option{"comm.outer_topk", at<&Config::comm, &CommConfig::outer_topk>, kShareOfAll, kFree, "share of the elements that outer_wire topk sends, of each block of 1,024"},

    Option{"run.dir", at<&Config::run, &RunConfig::dir>, kAny, kFree, "folder of the run: configuration, metrics, report, weights, checkpoints"},
    Option{"run.timeline", at<&Config::run, &RunConfig::timeline>, kAny, kFree, "file in the run folder for a Chrome trace of each rank's work, such as \"timeline.json\"; empty: a small one of one step, in timeline.json"},
    Option{"run.timeline_steps", at<&Config::run, &RunConfig::timeline_steps>, kPositive, kFree, "steps of the timeline that run.timeline names, from the second step on"},
    Option{"run.tensorboard", at<&Config::run, &RunConfig::tensorboard>, kAny, kFree, "write event files for TensorBoard into the folder tensorboard of the run folder"},
    Option{"run.device", at<&Config::run, &RunConfig::device>, kAny, kFree, "device on which the model computes, and in whose memory its units lie: cpu; cuda: a GPU of NVIDIA, each rank of a machine one of its own in turn; cuda:1: the second GPU, for all ranks; auto: as cuda where GPU, driver, plug-in and a torch with CUDA are there, else cpu. One GPU was tried, an H200: docs/gpu.md says what has not run, and what does not work there"},
    Option{"run.deterministic", at<&Config::run, &RunConfig::deterministic>, kAny, kFree, "on a GPU, use operators with the same bits in each run alone, and end the run at one that has no such form. On a CPU all runs have the same bits anyway"},
    Option{"run.threads", at<&Config::run, &RunConfig::threads>, Range{.lowest = 0, .highest = 4096}, kFree, "compute threads of a rank; 0: cores / ranks of this machine"},
    Option{"run.max_restarts", at<&Config::run, &RunConfig::max_restarts>, kNatural, kFree, "restarts after a failure: of all ranks from the newest checkpoint, of a lost worker alone; needs -n (`zero launch` has --max-restarts)"},
    Option{"run.min_ranks", at<&Config::run, &RunConfig::min_ranks>, kNatural, kFree, "fewest ranks to go on with; a rank that keeps failing is left out, and accumulation keeps the global batch; 0: never fewer; needs -n"},
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
