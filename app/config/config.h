// Config: everything a user can set, as plain values. No torch, no parsing, no checks.
//
// The member initialisers are the defaults; the option table (option.h) gives each member its name, its allowed values
// and its help, so that file, environment, command line and --help never disagree. Sections are handed to the parts
// they configure, one by one: no part receives the whole Config. What the keys mean is written once, in the option
// table.
//
//   LoadedConfig loaded = load_config({.file = "config.toml"});     // load.h
//   loaded.config.train.steps
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/files/data_files.h"
#include "zero/base/numbers/memory_budget.h"
#include "zero/optim/rule/rule_keys.h"
#include "zero/plan/units/tier_split.h"

#include "app/data/images/fitted_picture.h"

namespace zero {

struct ModelConfig {
  std::string name = "gpt2";
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t hidden = 0;
  std::int64_t kv_heads = 0;
  std::int64_t context = 64;
  std::int64_t vocab = 0;
  double dropout = 0;
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  std::vector<std::int64_t> sizes = {784, 256, 10};
  std::string init;
  bool operator==(const ModelConfig&) const = default;
};

// Held-out data: a fraction from the end of the training data, or, when `path` is given, files of their own.
struct Validation {
  double fraction = 0.1;
  DataFiles path;
  bool operator==(const Validation&) const = default;
};

// Names of columns or of classes.
struct Names {
  std::vector<std::string> names;
  bool operator==(const Names&) const = default;
};

struct DataConfig {
  std::string kind = "text";
  DataFiles path;
  Validation validation;
  std::int64_t context = 0;
  std::string order = "shuffled";
  std::int64_t words = 4000;
  std::string vocab;
  std::optional<bool> lower_case;  // nothing: as the vocabulary has it
  std::int64_t channels = 1;
  std::int64_t classes = 0;
  ImageSize size;
  std::vector<double> mean;
  std::vector<double> deviation;
  std::string text_column;
  std::string label_column;
  Names columns;
  Names labels;
  std::string augment = "none";
  std::string tokenizer;
  bool operator==(const DataConfig&) const = default;
};

// What losses are multiplied with: a number that stays, or one that finds its own value (0).
struct LossScaleChoice {
  double fixed = 0;
  bool operator==(const LossScaleChoice&) const = default;
};

// Samples of each rank in a micro-batch: the same number, measured ones, or those that are named.
struct ShareChoice {
  bool measured = false;
  std::vector<std::int64_t> samples;  // empty: the same number, or measured
  bool operator==(const ShareChoice&) const = default;
};

// Weights of the ranks that hold the model once: measured ones, or those that are named.
struct WeightsChoice {
  std::vector<std::int64_t> named;  // empty: measured
  bool operator==(const WeightsChoice&) const = default;
};

struct TrainConfig {
  std::int64_t steps = 2000;
  std::int64_t epochs = 0;
  std::int64_t batch = 6;
  ShareChoice share;
  std::int64_t share_most = 0;
  std::int64_t accumulate = 1;
  std::string reduce = "each";
  std::int64_t global_batch = 0;
  std::string dtype = "fp32";
  std::string reduce_dtype = "same";
  std::string matmul = "ieee";
  LossScaleChoice loss_scale;
  double clip = 1.0;
  double ema = 0;
  double label_smoothing = 0;
  double gradient_noise = 0;
  bool checkpoint_activations = false;
  std::string offload_activations = "none";
  std::int64_t seed = 1337;
  std::int64_t eval_every = 250;
  std::int64_t eval_batches = 20;
  std::int64_t patience = 0;
  std::int64_t log_every = 10;
  std::int64_t sample = 0;
  bool operator==(const TrainConfig&) const = default;
};

// [[optimizer.group]]: parameters with values of their own; the first group that takes one counts.
struct GroupConfig {
  std::string parameters;  // a pattern of names: "*.bias", "transformer.h.[01].*"
  double lr_scale = 1;
  std::optional<double> weight_decay;  // nothing: as without the group
  std::string rule;  // with a rule of matrices (muon): its name, or "adamw"; empty: as without the group
  bool operator==(const GroupConfig&) const = default;
};

struct OptimizerConfig : RuleKeys {
  std::string name = "adamw";
  std::vector<GroupConfig> group;
  bool operator==(const OptimizerConfig&) const = default;
};

struct ScheduleConfig {
  std::string name = "cosine";
  std::int64_t warmup = 100;
  double min_lr = 1e-4;
  double power = 2;
  std::int64_t decay = 0;
  bool operator==(const ScheduleConfig&) const = default;
};

// Ranks that hold the model once: their number, 0 being all, or those of one machine where that is better ("auto").
struct GroupChoice {
  GroupChoice() = default;
  GroupChoice(std::int64_t named) : ranks(named), automatic(false) {}  // NOLINT: a number names them
  std::int64_t ranks = 0;                                              // "auto": 0 until the machines are known
  bool automatic = true;
  bool operator==(const GroupChoice&) const = default;
};

struct ZeroConfig {
  std::int64_t stage = 3;
  GroupChoice group;
  std::int64_t secondary_group = 0;
  std::string shards = "range";
  WeightsChoice shard_weights;
  std::string reduce = "ordered";
  MemoryBudget device_memory, host_memory;
  std::vector<std::string> disk;  // folders
  MemoryBudget disk_memory;
  bool delayed_update = false;
  bool checksums = false;
  bool monitor = true;
  MemoryBudget memory_reserve;
  std::string rates = "cached";
  MemoryBudget link_bandwidth;  // bytes a second; auto: no link
  std::string placement = "auto";
  TierFractions parameter, gradient, optimizer;  // what lies off the device
  bool operator==(const ZeroConfig&) const = default;
};

// How ranks wait for each other: in each step, for servers, or for outer steps alone.
struct SyncConfig {
  std::string mode = "sync";
  std::int64_t servers = 0;
  std::int64_t staleness = 0;
  std::int64_t quorum = 0;
  double stale_lr = 1;
  double compensation = 0;
  std::int64_t local_steps = 50;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  std::int64_t fragments = 1;
  std::int64_t overlap = 0;
  double mix = 0.5;
  bool operator==(const SyncConfig&) const = default;
};

// Interval between two events: a number of steps, or a time; both 0: never.
struct Interval {
  std::int64_t steps = 0;
  std::chrono::milliseconds time{0};
  bool operator==(const Interval&) const = default;
};

struct CheckpointConfig {
  Interval every{.time = std::chrono::minutes(10)};
  std::int64_t keep = 3;
  std::string keep_best = "none";
  std::int64_t memory_every = 0;
  bool async = true;
  std::string on_error = "continue";
  bool operator==(const CheckpointConfig&) const = default;
};

struct HealthConfig {
  std::string non_finite = "skip";
  std::string spike = "ignore";
  double spike_sigma = 6;
  std::int64_t rewind_batches = 0;
  std::int64_t max_rewinds = 3;
  std::int64_t check_replicas = 0;
  std::string on_corruption = "stop";
  bool operator==(const HealthConfig&) const = default;
};

struct CommConfig {
  std::string transport = "auto";
  std::chrono::milliseconds timeout{60'000};
  std::string gather_wire = "none", reduce_wire = "none", outer_wire = "none";
  double outer_topk = 0.01;
  bool operator==(const CommConfig&) const = default;
};

struct RunConfig {
  std::string dir = "runs/latest";
  std::string timeline;
  std::int64_t timeline_steps = 3;
  bool tensorboard = false;
  std::string device = "cpu";
  bool deterministic = false;
  std::int64_t threads = 0;
  std::int64_t max_restarts = 0;
  std::int64_t min_ranks = 0;
  bool operator==(const RunConfig&) const = default;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  ZeroConfig zero;
  SyncConfig sync;
  CheckpointConfig checkpoint;
  HealthConfig health;
  CommConfig comm;
  RunConfig run;
  bool operator==(const Config&) const = default;
};

// Where each key that was given got its value: "train.batch" -> "config.toml:12", "command line", "ZERO_TRAIN_BATCH".
// A key that is absent has its default.
using Origins = std::map<std::string, std::string, std::less<>>;

struct LoadedConfig {
  Config config;
  Origins origins;
  std::vector<std::string> notes;  // values that were changed to fit others: a line each, for the user
};

}  // namespace zero
