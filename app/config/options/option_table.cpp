// The option table. A new key needs a member with its default in the options of the part that reads it, and a row here
// (docs/extend/configuration_key.md). If only some models take the key, add it also to app/train/tasks/model_table.h. A
// key of an update rule is a member in zero/optim/rule/rule_row.h, and the rule's options read it. help_of() adds the
// models or rules to the help. A rule between keys belongs in rules.cpp. File, environment, command line, help, manual
// page and completion use the row.
#include <algorithm>
#include <array>

#include "zero/base/error/check.h"
#include "zero/base/numbers/choice.h"
#include "zero/base/numbers/wire_codec.h"
#include "zero/optim/rule_registry.h"
#include "zero/plan/pipeline/pipeline.h"

#include "app/config/options/option.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

template <auto Member, auto... Rest>
constexpr auto& member_of(auto& object) {
  if constexpr (sizeof...(Rest) > 0) {
    return member_of<Rest...>(object.*Member);
  } else {
    return object.*Member;
  }
}

// Returns the word of a value.
std::string_view word_in(const auto& table, const auto& value) {
  const auto found = std::ranges::find_if(table, [&](const auto& choice) { return choice.value == value; });
  ZERO_CHECK(found != table.end(), "a value without a word");
  return found->word;
}

// NOLINTBEGIN(readability-identifier-naming): they read as functions
template <auto... Members>
constexpr auto at = +[](Config& config) -> auto& {
  return member_of<Members...>(config);
};

// A member of an enum, or of another type, and the table of its words.
template <const auto& kTable, auto... Members>
constexpr WordAccess word_at{kWordsOf<kTable>,
                             +[](Config& config, std::string_view word) {
                               for (const auto& choice : kTable)
                                 if (choice.word == word) member_of<Members...>(config) = choice.value;
                             },
                             +[](const Config& config) { return word_in(kTable, member_of<Members...>(config)); }};

// A member that is itself the word.
template <const auto& kNames, auto... Members>
constexpr WordAccess name_at{kNames,
                             +[](Config& config, std::string_view word) { member_of<Members...>(config) = word; },
                             +[](const Config& config) { return std::string_view(member_of<Members...>(config)); }};

template <auto... Members>
constexpr Converted<Names> names_at{
    +[](Config& config, const Names& value) { member_of<Members...>(config) = value.names; },
    +[](const Config& config) { return Names{member_of<Members...>(config)}; }};

// A whole number of another type.
template <auto... Members>
constexpr Converted<std::int64_t> number_at{
    +[](Config& config, const std::int64_t& value) {
      auto& member = member_of<Members...>(config);
      member = static_cast<std::remove_reference_t<decltype(member)>>(value);
    },
    +[](const Config& config) { return static_cast<std::int64_t>(member_of<Members...>(config)); }};

// A number of bytes; 0: auto.
template <auto... Members>
constexpr Converted<MemoryBudget> bytes_at{
    +[](Config& config, const MemoryBudget& value) {
      auto& member = member_of<Members...>(config);
      member = static_cast<std::remove_reference_t<decltype(member)>>(value.bytes);
    },
    +[](const Config& config) {
      const auto bytes = static_cast<std::int64_t>(member_of<Members...>(config));
      const auto kind = bytes > 0 ? MemoryBudget::Kind::kBytes : MemoryBudget::Kind::kAuto;
      return MemoryBudget{.kind = kind, .bytes = bytes};
    }};
// NOLINTEND(readability-identifier-naming)

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

using Words = std::string_view;
template <const auto& kTable>
constexpr auto kNamesOf = [] {
  std::array<Words, kTable.size()> names;
  std::ranges::transform(kTable, names.begin(), [](const auto& row) { return row.name; });
  return names;
}();

// Words of the library's types.
constexpr std::array<Choice<Reduce>, 3> kReduces{
    {{"auto", Reduce::kAuto}, {"each", Reduce::kEach}, {"last", Reduce::kLast}}};
constexpr std::array<Choice<RankSums>, 2> kRankSums{{{"ordered", RankSums::kOrdered}, {"nccl", RankSums::kLinked}}};
constexpr std::array<Choice<DType>, 3> kDTypes{{{name_of(DType::kFloat32), DType::kFloat32},
                                                {name_of(DType::kBFloat16), DType::kBFloat16},
                                                {name_of(DType::kFloat16), DType::kFloat16}}};
// No value: the type of train.dtype.
constexpr std::array<Choice<std::optional<DType>>, 2> kReduceDTypes{
    {{"same", std::nullopt}, {name_of(DType::kFloat32), DType::kFloat32}}};
constexpr std::array<Choice<Cut>, 4> kCuts{
    {{"range", Cut::kRange}, {"whole", Cut::kWhole}, {"hash", Cut::kHash}, {"weighted", Cut::kWeighted}}};
constexpr std::array<Choice<WireCodec>, 3> kWireCodecs{{{name_of(WireCodec::kNone), WireCodec::kNone},
                                                        {name_of(WireCodec::kInt8), WireCodec::kInt8},
                                                        {name_of(WireCodec::kInt4), WireCodec::kInt4}}};
constexpr std::array<Choice<bool>, 2> kRates{{{"cached", false}, {"probe", true}}};
constexpr std::array<Choice<bool>, 2> kPlacements{{{"auto", true}, {"device", false}}};
constexpr std::array<Choice<bool>, 2> kMatmuls{{{"ieee", false}, {"tf32", true}}};
constexpr std::array kTransports{Words("auto"), Words("in_process"), Words("shared_memory"),
                                 Words("mpi"),  Words("gloo"),       Words("nccl")};
constexpr std::array kSections{Words("model"),      Words("data"),   Words("train"), Words("optimizer"),
                               Words("schedule"),   Words("zero"),   Words("sync"),  Words("parallel"),
                               Words("checkpoint"), Words("health"), Words("comm"),  Words("run")};

constexpr auto kModel = &Config::model;
constexpr auto kData = &Config::data;
constexpr auto kTrain = &Config::train;
constexpr auto kOptimizer = &Config::optimizer;
constexpr auto kSchedule = &Config::schedule;
constexpr auto kEngine = &Config::engine;
constexpr auto kLocal = &Config::local;
constexpr auto kParallel = &Config::parallel;
constexpr auto kComm = &Config::comm;
constexpr auto kCheckpoint = &Config::checkpoint;
constexpr auto kHealth = &Config::health;

constexpr std::array kActivationTiers = [] {
  std::array<Words, 1 + kNumLowerTiers> words{"none"};
  std::ranges::transform(kLowerTiers, words.begin() + 1, [](Tier tier) { return name_of(tier); });
  return words;
}();
constexpr WordAccess kActivationTier{kActivationTiers,
                                     [](Config& config, std::string_view word) {
                                       auto& offload = config.model.activation_offload;
                                       offload.reset();
                                       if (const TierFacts* const tier = find_tier(word))
                                         offload = {.tier = tier->tier};
                                     },
                                     [](const Config& config) {
                                       const auto& offload = config.model.activation_offload;
                                       return offload ? name_of(offload->tier) : kActivationTiers.front();
                                     }};
constexpr Converted<LossScaleChoice> kLossScale{
    [](Config& config, const LossScaleChoice& scale) {
      config.engine.loss_scale.reset();
      if (scale.fixed > 0) config.engine.loss_scale = LossScaleOptions::fixed(scale.fixed);
    },
    [](const Config& config) {
      return LossScaleChoice{.fixed = config.engine.loss_scale ? config.engine.loss_scale->value : 0};
    }};
constexpr Converted<ShareChoice> kShare{[](Config& config, const ShareChoice& share) {
                                          config.train.share.kind = share.measured          ? ShareKind::kMeasured
                                                                    : share.samples.empty() ? ShareKind::kEqual
                                                                                            : ShareKind::kGiven;
                                          config.train.share.given = share.samples;
                                        },
                                        [](const Config& config) {
                                          const ShareOptions& share = config.train.share;
                                          return ShareChoice{.measured = share.kind == ShareKind::kMeasured,
                                                             .samples = share.given};
                                        }};
constexpr Converted<GroupChoice> kGroup{[](Config& config, const GroupChoice& group) {
                                          config.engine.group = static_cast<int>(group.ranks);
                                          config.zero.automatic_group = group.automatic;
                                        },
                                        [](const Config& config) {
                                          return GroupChoice{
                                              .ranks = config.engine.group,
                                              .automatic = config.zero.automatic_group && config.engine.group == 0};
                                        }};
constexpr Converted<WeightsChoice> kShardWeights{
    [](Config& config, const WeightsChoice& weights) {
      config.engine.shard_weights = {weights.named.begin(), weights.named.end()};
    },
    [](const Config& config) {
      WeightsChoice weights;
      for (const double weight : config.engine.shard_weights)
        weights.named.push_back(static_cast<std::int64_t>(weight));
      return weights;
    }};

constexpr Converted<CutChoice> kSectionCut{
    [](Config& config, const CutChoice& cut) {
      config.parallel.cut = cut.measured ? CutBy::kSeconds : CutBy::kWork;
      config.parallel.first_units = cut.units;
    },
    [](const Config& config) {
      return CutChoice{config.parallel.cut == CutBy::kSeconds, config.parallel.first_units};
    }};

struct Mode {
  SyncMode plan = SyncMode::kSync;
  bool is_local = false;
  bool operator==(const Mode&) const = default;
};
constexpr std::array<Choice<Mode>, 4> kModes{{{"sync", {SyncMode::kSync, false}},
                                              {"stale", {SyncMode::kStale, false}},
                                              {"async", {SyncMode::kAsync, false}},
                                              {"local", {SyncMode::kSync, true}}}};
constexpr WordAccess kMode{kWordsOf<kModes>,
                           [](Config& config, std::string_view word) {
                             const Mode mode = value_of(kModes, "sync.mode", word);
                             config.engine.sync.mode = mode.plan;
                             config.local.on = mode.is_local;
                           },
                           [](const Config& config) {
                             const Mode mode{config.engine.sync.mode, config.local.on};
                             return word_in(kModes, mode);
                           }};
constexpr std::array kOuterWires{Words("none"), Words("int8"), Words("int4"), Words("topk")};
constexpr WordAccess kOuterWire{
    kOuterWires,
    [](Config& config, std::string_view word) {
      config.comm.topk = word == "topk";
      config.engine.wire.outer = wire_codec_named(word).value_or(WireCodec::kNone);
    },
    [](const Config& config) { return config.comm.topk ? Words("topk") : name_of(config.engine.wire.outer); }};
constexpr Converted<Interval> kSaveInterval{
    [](Config& config, const Interval& every) {
      config.checkpoint.every_steps = every.steps;
      config.checkpoint.every_seconds = std::chrono::duration<double>(every.time).count();
    },
    [](const Config& config) {
      const std::chrono::duration<double> seconds(config.checkpoint.every_seconds);
      return Interval{.steps = config.checkpoint.every_steps,
                      .time = std::chrono::round<std::chrono::milliseconds>(seconds)};
    }};

// clang-format off
constexpr std::array kOptions{
    Option{"model.name", name_at<kNamesOf<kModelTable>, kModel, &ModelOptions::name>, kAny,
           "architecture of the model"},
    Option{"model.layers", at<kModel, &ModelOptions::layers>, Range{.lowest = 1, .highest = kMostLayers},
           "number of layers, or of blocks in a transformer"},
    Option{"model.width", at<kModel, &ModelOptions::width>, kPositive,
           "embedding width"},
    Option{"model.heads", at<kModel, &ModelOptions::heads>, kPositive,
           "attention heads of a block; must divide model.width"},
    Option{"model.hidden", at<kModel, &ModelOptions::hidden>, kNatural,
           "features of a recurrent or feed-forward layer; 0: recurrent 128, llama about 8/3 width, bert 4 width"},
    Option{"model.kv_heads", at<kModel, &ModelOptions::kv_heads>, kNatural,
           "heads of keys and values; must divide model.heads; 0: same as model.heads"},
    Option{"model.context", at<kModel, &ModelOptions::context>, kPositive,
           "context length in tokens"},
    Option{"model.vocab", at<kModel, &ModelOptions::vocab>, kNatural,
           "vocabulary size in tokens; 0: that of the data"},
    Option{"model.dropout", at<kModel, &ModelOptions::dropout>, kBelowOne,
           "dropout probability of an activation"},
    Option{"model.rope_theta", at<kModel, &ModelOptions::rope_theta>, kAboveZero,
           "base of rotary positions"},
    Option{"model.norm_eps", at<kModel, &ModelOptions::norm_eps>, kAboveZero,
           "epsilon in the denominator of norms"},
    Option{"model.tie_embeddings", at<kModel, &ModelOptions::tie_embeddings>, kAny,
           "weight tying: the head uses the weights of the token embedding"},
    Option{"model.sizes", at<kModel, &ModelOptions::sizes>, kPositive,
           "features of each layer, the input first"},
    Option{"model.init", at<kModel, &ModelOptions::init>, kAny,
           "first weights: a safetensors file, an index, or a folder with either; empty: random, from train.seed"},

    Option{"data.kind", word_at<kDataKinds, kData, &DataOptions::kind>, kAny,
           "format of the data (docs/guide/train.md); text: each byte is a token; tokens: .bin of llm.c or nanoGPT"},
    Option{"data.path", at<kData, &DataOptions::path>, kAny,
           "file or folder of the data, always needed; text and tokens also take a list or a pattern of files"},
    Option{"data.validation", at<kData, &DataOptions::validation>, kBelowOne,
           "held-out data: a fraction of data.path, or other files or a folder; 0: none"},
    Option{"data.context", at<kData, &DataOptions::context>, kNatural,
           "sample length in tokens; 0: same as model.context"},
    Option{"data.order", word_at<kOrders, kData, &DataOptions::order>, kAny,
           "order of the samples; shuffled: drawn from train.seed; sequential: as in the data"},
    Option{"data.words", at<kData, &DataOptions::words>, Range{.lowest = 4, .highest = kInt32},
           "largest vocabulary of words learned from the training texts, with [PAD], [UNK] and [CLS]"},
    Option{"data.vocab", at<kData, &DataOptions::vocab>, kAny,
           "WordPiece vocabulary file, one piece on each line, as BERT publishes it; empty: words are learned"},
    Option{"data.lower_case", at<kData, &DataOptions::lower_case>, kAny,
           "lower-casing of texts, without accents, for data.vocab; auto: if under 1 % of its pieces have capitals"},
    Option{"data.tokenizer", at<kData, &DataOptions::tokenizer>, kAny,
           "folder of the tokenizer that made the tokens; prompts and samples are then text; empty: token numbers"},
    Option{"data.channels", at<kData, &DataOptions::channels>, Range{.lowest = 1, .highest = 3},
           "channels of images; 1: grey; 3: red, green and blue"},
    Option{"data.classes", at<kData, &DataOptions::classes>, kNatural,
           "number of classes of mnist, tsv or csv; 0: from the labels (a csv of numbers has targets instead)"},
    Option{"data.text_column", at<kData, &DataOptions::text_column>, kAny,
           "column of the texts of tsv or csv, by name or number from 1; empty: sentence in a tsv, none in a csv"},
    Option{"data.label_column", at<kData, &DataOptions::label_column>, kAny,
           "column of the labels or targets, by name or number from 1; empty: label if there are texts, else the last"},
    Option{"data.columns", names_at<kData, &DataOptions::columns>, kAny,
           "input columns of a csv in their order, by name or number from 1; empty: all but the label's"},
    Option{"data.labels", names_at<kData, &DataOptions::labels>, kAny,
           "class names of tsv or csv in their order; empty: the words in data.path in byte order, or numbers"},
    Option{"data.size", at<kData, &DataOptions::size>, Range{.lowest = 0, .highest = kMostPictureSide},
           "image side in pixels, or [height, width]; pictures are resized and cropped to it; 0: all have one size"},
    Option{"data.mean", at<kData, &DataOptions::images, &ImageInputs::mean>, kAny,
           "mean of each channel, or one for all: input = (v / 255 - mean) / std for a byte v; []: 0"},
    Option{"data.std", at<kData, &DataOptions::images, &ImageInputs::deviation>, kAboveZero,
           "standard deviation of each channel, or one for all: input = (v / 255 - mean) / std for a byte v; []: 1"},
    Option{"data.augment", word_at<kAugments, kData, &DataOptions::images, &ImageInputs::augment>, kAny,
           "random change of training images; shift: by up to 2 pixels; flip: mirrors half of them; shift_flip: both"},

    Option{"train.steps", at<kTrain, &TrainKeys::steps>, kPositive,
           "optimizer steps of the run"},
    Option{"train.epochs", at<kTrain, &TrainKeys::epochs>, kNatural,
           "passes over the training data, which set train.steps; 0: not given"},
    Option{"train.batch", at<kTrain, &TrainKeys::batch>, kPositive,
           "samples of a rank in a micro-batch"},
    Option{"train.share", kShare, kPositive,
           "samples of each rank in a micro-batch; equal: train.batch; auto: by measured speed; [6, 2]: as named"},
    Option{"train.share_most", at<kTrain, &TrainKeys::share, &ShareOptions::most>, kNatural,
           "largest number of samples of a rank in a micro-batch, with train.share auto; 0: no limit"},
    Option{"train.accumulate", at<kTrain, &TrainKeys::accumulate>, kPositive,
           "micro-batches of a rank in a step"},
    Option{"train.leaves", at<kTrain, &TrainKeys::leaves>, Range{.lowest = 0, .highest = 65536},
           "logical micro-batches of a step, summed in a tree: no bit depends on the number of ranks; 0: off"},
    Option{"train.reduce", word_at<kReduces, kEngine, &AttachOptions::reduce>, kAny,
           "time of gradient sums over ranks; each: after each micro-batch; last: once a step; auto: each"},
    Option{"train.global_batch", at<kTrain, &TrainKeys::global_batch>, kNatural,
           "samples of a step over all ranks: batch * accumulate * ranks; sets one that is left out; 0: not given"},
    Option{"train.dtype", word_at<kDTypes, kEngine, &AttachOptions::dtype>, kAny,
           "type of parameters and gradients; master copies are fp32"},
    Option{"train.reduce_dtype", word_at<kReduceDTypes, kEngine, &AttachOptions::reduce_dtype>, kAny,
           "type of the summed gradients of a step; same: rounded once to train.dtype; fp32: not rounded"},
    Option{"train.matmul", word_at<kMatmuls, kTrain, &TrainKeys::tf32>, kAny,
           "precision of fp32 matrix products on a GPU; ieee: all bits; tf32: 10 bits of each factor, faster"},
    Option{"train.loss_scale", kLossScale, kAboveZero,
           "loss scale for train.dtype fp16; dynamic: from 65536, halved at an overflow, doubled after 2,000 updates"},
    Option{"train.clip", at<kEngine, &AttachOptions::clip>, kNotNegative,
           "gradient clipping: largest global norm; 0: off"},
    Option{"train.label_smoothing", at<kModel, &ModelOptions::label_smoothing>, kBelowOne,
           "label smoothing: part of each target spread over all classes or tokens; not in the validation loss"},
    Option{"train.gradient_noise", at<kTrain, &TrainKeys::gradient_noise>, kNotNegative,
           "gradient noise: its variance v in the first step, and v / (1 + t)^0.55 after t steps; 0: off"},
    Option{"train.ema", at<kEngine, &AttachOptions::ema>, kBelowOne,
           "decay of a moving average of the weights, such as 0.999, saved as model_ema.safetensors; 0: off"},
    Option{"train.checkpoint_activations", at<kModel, &ModelOptions::checkpoint_activations>, kAny,
           "activation checkpointing: the backward pass computes blocks again; less memory, more time, same bits"},
    Option{"train.offload_activations", kActivationTier, kAny,
           "tier of the inputs of checkpointed blocks until the backward pass; needs checkpoint_activations"},
    Option{"train.seed", number_at<kTrain, &TrainKeys::seed>, Range{.lowest = 0, .highest = kExactInDouble},
           "seed of first weights, sample order and dropout"},
    Option{"train.eval_every", at<kTrain, &TrainKeys::eval_every>, kNatural,
           "steps between evaluations; 0: only one, at the end"},
    Option{"train.eval_batches", at<kTrain, &TrainKeys::eval_batches>, kNatural,
           "batches of an evaluation; 0: all validation data"},
    Option{"train.patience", at<kTrain, &TrainKeys::patience>, kNatural,
           "early stopping: evaluations in a row without a better one before the run ends; 0: off"},
    Option{"train.log_every", at<kTrain, &TrainKeys::log_every>, kPositive,
           "steps between lines of output"},
    Option{"train.sample", at<kTrain, &TrainKeys::sample>, kNatural,
           "number of tokens to generate at the end, or of validation samples to show with their predictions; 0: none"},

    Option{"optimizer.name", name_at<kNamesOf<kRuleTable>, kOptimizer, &OptimizerKeys::name>, kAny,
           "update rule"},
    Option{"optimizer.lr", at<kOptimizer, &OptimizerKeys::lr>, kNotNegative,
           "highest learning rate"},
    Option{"optimizer.betas", at<kOptimizer, &OptimizerKeys::betas>, kBelowOne,
           "decay rates of the moments"},
    Option{"optimizer.eps", at<kOptimizer, &OptimizerKeys::eps>, kAboveZero,
           "epsilon in the denominator of an update"},
    Option{"optimizer.weight_decay", at<kOptimizer, &OptimizerKeys::weight_decay>, kNotNegative,
           "weight decay of tensors with two or more dimensions"},
    Option{"optimizer.momentum", at<kOptimizer, &OptimizerKeys::momentum>, kBelowOne,
           "momentum"},
    Option{"optimizer.nesterov", at<kOptimizer, &OptimizerKeys::nesterov>, kAny,
           "Nesterov's form of momentum"},
    Option{"optimizer.trust_ratio", at<kOptimizer, &OptimizerKeys::trust_ratio>, kNotNegative,
           "smallest and largest trust ratio: a parameter's norm over the norm of its direction"},
    Option{"optimizer.muon_scale", name_at<kWordsOf<kMuonScales>, kOptimizer, &OptimizerKeys::muon_scale>, kAny,
           "step length of a matrix; original: sqrt(max(1, rows / columns)); match_rms_adamw: as long as adamw's"},
    Option{"optimizer.adamw_lr", at<kOptimizer, &OptimizerKeys::adamw_lr>, kNotNegative,
           "highest learning rate of embeddings, heads and vectors, which adamw updates; 0: optimizer.lr"},
    Option{"optimizer.beta2_decay", at<kOptimizer, &OptimizerKeys::beta2_decay>, kNotAboveZero,
           "exponent of a mean square: the newest squares count with step^beta2_decay"},
    Option{"optimizer.eps1", at<kOptimizer, &OptimizerKeys::eps1>, kAboveZero,
           "root of the smallest mean square that divides a gradient"},
    Option{"optimizer.eps2", at<kOptimizer, &OptimizerKeys::eps2>, kNotNegative,
           "smallest root mean square of a parameter that scales its step"},
    Option{"optimizer.clip", at<kOptimizer, &OptimizerKeys::clip>, kAboveZero,
           "largest root mean square of a direction; a longer direction is shortened to it"},
    Option{"optimizer.group", at<kOptimizer, &OptimizerKeys::group>, kNotNegative,
           "parameter groups, a table [[optimizer.group]] each: a pattern of names with lr_scale and weight_decay"},

    Option{"schedule.name", word_at<kLrKinds, kSchedule, &LrSchedule::kind>, kAny,
           "shape of the learning rate after the warm-up (formulas: docs/guide/optimizers.md)"},
    Option{"schedule.warmup", at<kSchedule, &LrSchedule::warmup>, kNatural,
           "number of warm-up steps, in which the learning rate rises to optimizer.lr"},
    Option{"schedule.min_lr", at<kSchedule, &LrSchedule::min_lr>, kNotNegative,
           "learning rate to which the schedule falls; a tenth of optimizer.lr if not given"},
    Option{"schedule.power", at<kSchedule, &LrSchedule::power>, kAboveZero,
           "exponent of the polynomial schedule"},
    Option{"schedule.decay", at<kSchedule, &LrSchedule::decay>, kNatural,
           "number of last steps of wsd, in which the learning rate falls; 0: a fifth of the steps after the warm-up"},

    Option{"zero.stage", number_at<kEngine, &AttachOptions::stage>, Range{.lowest = 0, .highest = 3},
           "states that are split over ranks; 0: none; 1: optimizer states; 2: also gradients; 3: also parameters"},
    Option{"zero.group", kGroup, kNatural,
           "neighbouring ranks that hold one copy of the model; 0: all ranks; auto: docs/distributed/copies.md"},
    Option{"zero.secondary_group", number_at<kEngine, &AttachOptions::secondary_group>, kNatural,
           "neighbouring ranks that keep gathered weights for later gathers of a step (hpZ); needs stage 3; 0: off"},
    Option{"zero.shards", word_at<kCuts, kEngine, &AttachOptions::shards>, kAny,
           "elements of a rank; range: equal ranges; whole: parameters; hash: hashed blocks; weighted: by weight"},
    Option{"zero.shard_weights", kShardWeights, kPositive,
           "weight of each rank or server with zero.shards weighted, such as [2, 1, 1]; auto: by available memory"},
    Option{"zero.reduce", word_at<kRankSums, kEngine, &AttachOptions::sums>, kAny,
           "sum of the ranks' gradients; ordered: in rank order, same bits on each transport; nccl: by NCCL"},
    Option{"zero.device_memory", at<kEngine, &AttachOptions::device_memory>, kAny,
           "bytes of a rank on the device; auto: its part of 4/5 of the free memory; min: the least that works"},

    Option{"zero.host_memory", at<kEngine, &AttachOptions::offload, &OffloadOptions::host_memory>, kAny,
           "bytes of a rank on the host: states, activations; auto: docs/guide/place_states.md; min: the least"},
    Option{"zero.disk", at<kEngine, &AttachOptions::offload, &OffloadOptions::disk>, kAny,
           "folders for states and activations, one on each disk"},
    Option{"zero.disk_memory", bytes_at<kEngine, &AttachOptions::offload, &OffloadOptions::disk_memory>, kAny,
           "bytes of a rank on the disks: states, activations; auto: its part of 9/10 of the free room"},
    Option{"zero.delayed_update", at<kEngine, &AttachOptions::delayed_update>, kAny,
           "delayed update: each gradient is applied one step late, from step 41 on; needs stage 2"},
    Option{"zero.checksums", at<kEngine, &AttachOptions::offload, &OffloadOptions::checksums>, kAny,
           "checksums of pages that return from disk; 8 bytes of memory for each page, beyond zero.host_memory"},
    Option{"zero.monitor", at<kEngine, &AttachOptions::offload, &OffloadOptions::monitor, &MonitorOptions::on>, kAny,
           "memory monitor: returns memory while another program needs it"},
    Option{"zero.memory_reserve",
           bytes_at<kEngine, &AttachOptions::offload, &OffloadOptions::monitor, &MonitorOptions::reserve_bytes>, kAny,
           "memory of this machine to keep free; auto: 1/16 of the free memory, 64 MiB to 1 GiB"},
    Option{"zero.rates", word_at<kRates, &Config::zero, &ZeroKeys::probe_rates>, kAny,
           "speeds of disk and update in the step model; cached: as measured here before; probe: measured again"},
    Option{"zero.link_bandwidth",
           bytes_at<kEngine, &AttachOptions::offload, &OffloadOptions::link_bytes_per_second>, kAny,
           "bytes a second of a simulated link (such as PCIe) between device and host; auto: no link"},
    Option{"zero.placement", word_at<kPlacements, kEngine, &AttachOptions::offload, &OffloadOptions::automatic>, kAny,
           "places of states that do not fit on the device; auto: for the shortest step; device: none leaves it"},
    Option{"zero.parameter",
           at<kEngine, &AttachOptions::offload, &OffloadOptions::fractions, &StateFractions::parameter>, kNotNegative,
           "fractions of the parameters on host and disk; needs stage 3"},
    Option{"zero.gradient",
           at<kEngine, &AttachOptions::offload, &OffloadOptions::fractions, &StateFractions::gradient>, kNotNegative,
           "fractions of the gradients on host and disk; needs stage 2"},
    Option{"zero.optimizer",
           at<kEngine, &AttachOptions::offload, &OffloadOptions::fractions, &StateFractions::optimizer>, kNotNegative,
           "fractions of master copies and moments on host and disk"},

    Option{"sync.mode", kMode, kAny,
           "kind of update; sync: mean over ranks; stale: the same, late; async: each gradient; local: outer steps"},
    Option{"sync.servers", number_at<kEngine, &AttachOptions::sync, &SyncPlan::servers>, kNatural,
           "number of servers: the first ranks, which hold and update all states; stale and async: 1 if not given"},
    Option{"sync.staleness", number_at<kEngine, &AttachOptions::sync, &SyncPlan::staleness>, kNatural,
           "staleness in steps; stale: from a gradient's weights to its update; async: lead over the slowest worker"},
    Option{"sync.quorum", number_at<kEngine, &AttachOptions::sync, &SyncPlan::quorum>, kNatural,
           "gradients that an update waits for, in sync with servers; later gradients are dropped; 0: all"},
    Option{"sync.stale_lr", at<kEngine, &AttachOptions::sync, &SyncPlan::stale_lr>, kNotNegative,
           "exponent that reduces old gradients in async: a gradient of age a counts with lr / (1 + a)^stale_lr"},
    Option{"sync.compensation", at<kEngine, &AttachOptions::sync, &SyncPlan::compensation>, kNotNegative,
           "factor c that corrects old gradients in async (DC-ASGD): g + c * g * g * change of the weights; 0: off"},
    Option{"sync.local_steps", number_at<kLocal, &LocalKeys::steps>, kPositive,
           "steps from one outer step to the next, with sync.mode local"},
    Option{"sync.outer_lr", at<kLocal, &LocalKeys::outer_lr>, kAboveZero,
           "learning rate of the outer step; 1 with sync.outer_momentum 0: the mean of the copies"},
    Option{"sync.outer_momentum", at<kLocal, &LocalKeys::outer_momentum>, kBelowOne,
           "Nesterov momentum of the outer step"},
    Option{"sync.fragments", number_at<kLocal, &LocalKeys::fragments>, kPositive,
           "parts of the model that sync.mode local merges at different times, each once in sync.local_steps"},
    Option{"sync.overlap", number_at<kLocal, &LocalKeys::overlap>, kNatural,
           "steps of a copy while an outer step's sums are sent; at most sync.local_steps / fragments; 0: copies wait"},
    Option{"sync.mix", at<kLocal, &LocalKeys::mix>, kBelowOne,
           "weight of a copy's own values with sync.overlap: new = mix * own + (1 - mix) * merged"},

    Option{"parallel.pipeline", number_at<kParallel, &PipelineOptions::pipeline>, kPositive,
           "ranks that share one model as a pipeline's line; must divide the number of ranks; 1: no pipeline"},
    Option{"parallel.sections", number_at<kParallel, &PipelineOptions::sections>,
           Range{.lowest = 0, .highest = kMostLayers},
           "parts of the model in a line; 0: one a rank, with parallel.schedule interleaved or zb-v two"},
    Option{"parallel.schedule", word_at<kPassOrders, kParallel, &PipelineOptions::schedule>, kAny,
           "order of a pipeline's passes; zb-...: gradients of weights fill the gaps; auto: the shortest that fits"},
    Option{"parallel.depth", number_at<kParallel, &PipelineOptions::depth>, kNatural,
           "parallel.schedule 1f1b, for slow links: rank s of p begins with (1 + depth)(p - 1 - s) forward passes"},
    Option{"parallel.cut", kSectionCut, kAny,
           "equal parts of a cut: estimated work or measured seconds; or the units that begin sections 1 and up"},
    Option{"parallel.activation_memory", bytes_at<kParallel, &PipelineOptions::activation_memory>, kAny,
           "largest bytes of a rank's activations in flight for parallel.schedule auto; auto: no limit"},

    Option{"checkpoint.every", kSaveInterval, kNatural,
           "steps, or time such as \"10min\", between two checkpoints; the last step also has one; 0: none"},
    Option{"checkpoint.keep", at<kCheckpoint, &CheckpointPolicy::keep>, kPositive,
           "number of newest checkpoints to keep"},
    Option{"checkpoint.keep_best", word_at<kBestMeasures, kCheckpoint, &CheckpointPolicy::keep_best>, kAny,
           "measure of the best checkpoint, which is kept beside the newest: validation loss or accuracy"},
    Option{"checkpoint.memory_every", at<kCheckpoint, &CheckpointPolicy::memory_every>, kNatural,
           "steps between checkpoints in the launcher's memory, from which restarted ranks continue; 0: none"},
    Option{"checkpoint.async", at<kCheckpoint, &CheckpointPolicy::async>, kAny,
           "background saves, if memory has room for a copy of the states"},
    Option{"checkpoint.on_error", word_at<kStopsOnError, kCheckpoint, &CheckpointPolicy::stop_on_error>, kAny,
           "action after a failed save; continue: print a line, and save again at the next time; stop: end the run"},

    Option{"health.non_finite", word_at<kNonFinites, kHealth, &HealthOptions::non_finite>, kAny,
           "action after a gradient that is not finite; skip: no update; rewind: newest checkpoint; stop: end the run"},
    Option{"health.spike", word_at<kSpikes, kHealth, &HealthOptions::spike>, kAny,
           "action after a loss or norm far above the last 128; ignore: update; others: as in health.non_finite"},
    Option{"health.spike_sigma", at<kHealth, &HealthOptions::spike_sigma>, kAboveZero,
           "distance of a spike from the mean, in standard deviations"},
    Option{"health.rewind_batches", at<kHealth, &HealthOptions::rewind_batches>, kNatural,
           "number of further steps, after the bad step, whose samples a rewind leaves out"},
    Option{"health.max_rewinds", at<kHealth, &HealthOptions::max_rewinds>, kNatural,
           "largest number of rewinds to one checkpoint; the next rewind stops the run"},
    Option{"health.check_replicas", at<kHealth, &HealthOptions::check_replicas>, kNatural,
           "steps between comparisons of states that several ranks hold; also before each checkpoint; 0: none"},
    Option{"health.on_corruption", word_at<kCorruptions, kHealth, &HealthOptions::on_corruption>, kAny,
           "action if health.check_replicas finds a difference; stop: end the run; rewind: newest checkpoint"},

    Option{"comm.transport", name_at<kTransports, kComm, &CommKeys::transport>, kAny,
           "transport of messages between ranks"},
    Option{"comm.timeout", at<kComm, &CommKeys::timeout>, kAny,
           "longest wait for a rank; after it the run ends, and names the rank"},
    Option{"comm.gather_wire", word_at<kWireCodecs, kEngine, &AttachOptions::wire, &WireCodecs::gather>, kAny,
           "codec of gathered parameters; int8 sends 3.9 times fewer bytes than fp32, int4 7.8 times; needs stage 3"},
    Option{"comm.reduce_wire", word_at<kWireCodecs, kEngine, &AttachOptions::wire, &WireCodecs::reduce>, kAny,
           "codec of each rank's gradients before they are summed in fp32; with zero.group only within a group"},
    Option{"comm.outer_wire", kOuterWire, kAny,
           "codec between copies of the model; topk: only the largest elements of outer steps' differences"},
    Option{"comm.outer_topk", at<kComm, &CommKeys::topk_share>, kShareOfAll,
           "fraction of each block of 1,024 elements that comm.outer_wire topk sends"},

    Option{"run.dir", at<&Config::run, &RunKeys::dir>, kAny,
           "folder of the run: configuration, metrics, report, weights, checkpoints"},
    Option{"run.timeline", at<&Config::timeline, &TimelineOptions::file>, kAny,
           "file in run.dir for a Chrome trace, such as \"timeline.json\"; empty: one step, in timeline.json"},
    Option{"run.timeline_steps", at<&Config::timeline, &TimelineOptions::steps>, kPositive,
           "number of steps in the file of run.timeline, from the second step on"},
    Option{"run.tensorboard", at<&Config::run, &RunKeys::tensorboard>, kAny,
           "event files for TensorBoard, in the folder tensorboard of run.dir"},
    Option{"run.device", at<&Config::run, &RunKeys::device>, kAny,
           "device of the model: cpu; cuda: a GPU a rank; cuda:1: GPU 1 for all; auto: cuda if possible, else cpu"},
    Option{"run.deterministic", at<&Config::run, &RunKeys::deterministic>, kAny,
           "deterministic operators only, on a GPU; an operator without such a form ends the run"},
    Option{"run.threads", at<&Config::run, &RunKeys::threads>, Range{.lowest = 0, .highest = 4096},
           "compute threads of a rank; 0: cores / ranks of this machine"},
    Option{"run.max_restarts", at<&Config::run, &RunKeys::max_restarts>, kNatural,
           "number of restarts after a failure; needs -n (`zero launch` has --max-restarts)"},
    Option{"run.min_ranks", at<&Config::run, &RunKeys::min_ranks>, kNatural,
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
