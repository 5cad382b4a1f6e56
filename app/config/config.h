// Config: everything a user can set, as plain values. No torch, no parsing, no checks.
//
//   LoadedConfig loaded = load_config({.file = "config.toml"});     // load.h
//   loaded.config.train.steps
//
// The member initialisers are the defaults. The option table (option.h) has each member's key, allowed values and help.
// File, environment, command line and --help all use that table. Each section is passed only to the part that it
// configures: no part receives the whole Config. The meaning of a key is written only in the option table.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/numbers/memory_budget.h"
#include "zero/optim/lr_schedule.h"
#include "zero/optim/rule/rule_keys.h"
#include "zero/plan/units/tier_split.h"

#include "app/data/open_data.h"
#include "app/train/folder/checkpoint_policy.h"
#include "app/train/tasks/model_options.h"
#include "app/train/watch/health.h"

namespace zero {

// The loss scale: a fixed number, or 0 for a dynamic scale.
struct LossScaleChoice {
  double fixed = 0;
  bool operator==(const LossScaleChoice&) const = default;
};

// The shares: the number of samples of each rank in a micro-batch. They are equal, measured or named.
struct ShareChoice {
  bool measured = false;
  std::vector<std::int64_t> samples;  // the named shares; empty: equal or measured shares
  bool operator==(const ShareChoice&) const = default;
};

// Shard weights of the ranks that hold one copy of the model, or of the servers.
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
  double gradient_noise = 0;
  std::int64_t seed = 1337;
  std::int64_t eval_every = 250;
  std::int64_t eval_batches = 20;
  std::int64_t patience = 0;
  std::int64_t log_every = 10;
  std::int64_t sample = 0;
  bool operator==(const TrainConfig&) const = default;
};

// [[optimizer.group]]: a parameter group. A parameter belongs to the first group whose pattern matches its name.
struct GroupConfig {
  std::string parameters;  // a pattern of names: "*.bias", "transformer.h.[01].*"
  double lr_scale = 1;
  std::optional<double> weight_decay;  // empty: as without the group
  std::string rule;  // if the optimizer updates matrices (muon): its name, or "adamw"; empty: as without the group
  bool operator==(const GroupConfig&) const = default;
};

struct OptimizerConfig : RuleKeys {
  std::string name = "adamw";
  std::vector<GroupConfig> group;
  bool operator==(const OptimizerConfig&) const = default;
};

// The size of a shard group; 0: all ranks. "auto" chooses between all ranks and the ranks of one machine.
struct GroupChoice {
  GroupChoice() = default;
  GroupChoice(std::int64_t named) : ranks(named), automatic(false) {}  // NOLINT: a number names them
  std::int64_t ranks = 0;                                              // if `automatic`: 0 until the machines are known
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
  TierFractions parameter, gradient, optimizer;  // fractions of each state on host and disk
  bool operator==(const ZeroConfig&) const = default;
};

// How ranks wait for each other: in each step, for servers, or only for outer steps.
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
  ModelOptions model;  // with the keys of [train] that concern the model
  DataOptions data;
  TrainConfig train;
  OptimizerConfig optimizer;
  LrSchedule schedule;  // lr and steps: from optimizer.lr and train.steps when a run starts
  ZeroConfig zero;
  SyncConfig sync;
  CheckpointPolicy checkpoint{.every_seconds = 600};
  HealthOptions health;
  CommConfig comm;
  RunConfig run;
};
// True if all keys have the same values. The definition is in resolved.cpp.
bool operator==(const Config& a, const Config& b);

// The source of each given key: "train.batch" -> "config.toml:12", "command line" or "ZERO_TRAIN_BATCH".
// A key that is not in the map has its default.
using Origins = std::map<std::string, std::string, std::less<>>;

struct LoadedConfig {
  Config config;
  Origins origins;
  std::vector<std::string> notes;  // a line for the user about each value that was changed to fit another value
};

}  // namespace zero
