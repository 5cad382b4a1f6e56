// Config: everything a user can set, as plain values. No torch, no parsing, no checks.
//
//   LoadedConfig loaded = load_config({.file = "config.toml"});     // load.h
//   loaded.config.train.steps
//
// A key's value is a member of the options of the part that reads it (docs/decisions/0094). The member initialisers are
// the defaults. The option table (option.h) has each member's key, allowed values and help. File, environment, command
// line and --help all use that table. No part receives the whole Config.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "zero/comm/transport/world.h"
#include "zero/engine/options/options.h"
#include "zero/optim/lr_schedule.h"
#include "zero/optim/rule/rule_row.h"
#include "zero/plan/pipeline/pipeline.h"

#include "app/data/open_data.h"
#include "app/report/step_timeline.h"
#include "app/train/folder/checkpoint_policy.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/step_options.h"
#include "app/train/watch/health.h"

namespace zero {

// [train]: the options of the steps, and keys that are settled before a run.
struct TrainKeys : StepOptions {
  std::int64_t epochs = 0;        // settle_epochs() makes them steps; 0: not given
  std::int64_t global_batch = 0;  // fit_to_world() makes batch and accumulate agree with it
  bool tf32 = false;              // train.matmul
};

// [[optimizer.group]]: a parameter group. A parameter belongs to the first group whose pattern matches its name.
struct GroupKeys {
  std::string parameters;  // a pattern of names: "*.bias", "transformer.h.[01].*"
  double lr_scale = 1;
  std::optional<double> weight_decay;  // empty: as without the group
  std::string rule;  // if the optimizer updates matrices (muon): its name, or "adamw"; empty: as without the group
  bool operator==(const GroupKeys&) const = default;
};

struct OptimizerKeys : RuleKeys {
  std::string name = "adamw";
  std::vector<GroupKeys> group;
  bool operator==(const OptimizerKeys&) const = default;
};

// Keys of [zero] that the program reads itself.
struct ZeroKeys {
  bool automatic_group = true;  // zero.group = "auto"; AttachOptions::group is 0 until the machines are known
  bool probe_rates = false;     // zero.rates
};

// sync.mode = "local": copies train apart. The other modes are in AttachOptions::sync.
struct LocalKeys : LocalSteps {
  bool on = false;
};

// [comm] without the codecs of AttachOptions::wire: the options of the world, and comm.outer_wire = "topk".
struct CommKeys : WorldOptions {
  bool topk = false;
  double topk_share = 0.01;  // comm.outer_topk
};

struct RunKeys {
  std::string dir = "runs/latest";
  bool tensorboard = false;
  std::string device = "cpu";
  bool deterministic = false;
  std::int64_t threads = 0;
  std::int64_t max_restarts = 0;
  std::int64_t min_ranks = 0;
  bool operator==(const RunKeys&) const = default;
};

struct Config {
  ModelOptions model;  // with the keys of [train] that concern the model
  DataOptions data;
  TrainKeys train;
  OptimizerKeys optimizer;
  LrSchedule schedule;  // lr and steps: from optimizer.lr and train.steps when a run starts
  // [zero], servers of [sync], codecs of [comm], and keys of [train]. attach() has other defaults of these members.
  AttachOptions engine{.clip = 1.0, .reduce = Reduce::kEach, .dtype = DType::kFloat32};
  ZeroKeys zero;
  LocalKeys local;
  PipelineOptions parallel;
  CheckpointPolicy checkpoint{.every_seconds = 600};
  HealthOptions health;
  CommKeys comm;
  RunKeys run;
  TimelineOptions timeline;
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
