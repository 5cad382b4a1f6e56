// load_config(): reads what the user wrote and checks it. The command line wins over the environment, the environment
// over the file, the file over the default.
//
//   LoadedConfig loaded = load_config({.file = "config.toml", .environment = environment_of_process()});
//   fit_to_world(loaded, world);     // batch, accumulate and global_batch agree, or the missing one is derived
//
// Local. Throws ConfigError and touches nothing: no folder is created, no data is read beyond its existence and size.
// A second check, by the parts that know (data, model, memory), follows when they are made.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/config.h"
#include "app/config/value.h"

namespace zero {

struct ConfigRequest {
  std::optional<std::filesystem::path> file;
  std::string text, text_name;           // TOML that is read instead, such as a checkpoint's, and its name for messages
  std::vector<Setting> overrides;        // from the command line, see command_line.h
  std::vector<std::string> environment;  // "ZERO_TRAIN_STEPS=100"; variables of other programs are passed over
  bool check_files = true;               // off where the data need not be on this machine (`zero plan`)
  bool recorded = false;  // what a run or its checkpoint says of itself: a key that nothing reads is passed over
};

LoadedConfig load_config(const ConfigRequest& request);

std::vector<std::string> environment_of_process();

// Makes batch * accumulate * world == global_batch, deriving what was not given. World is 1 or more. Refuses a zero.group
// that does not divide the world, a zero.secondary_group that does not divide the group, and shares that are not of this world.
void fit_to_world(LoadedConfig& loaded, std::int64_t world);

// Throws ConfigError under `key` where these ranks are not whole groups of zero.group; under "sync.mode" where copies should
// train apart, and there is one.
void require_whole_groups(std::int64_t world, const Config& config, std::string_view key = "zero.group");

// Throws ConfigError under `key` where the ranks that hold the model once are no two or more groups of zero.secondary_group.
void require_secondary_groups(std::int64_t world, const Config& config, std::string_view key = "zero.secondary_group");

// Gives a run of train.epochs its train.steps: as many as take each of the `samples` of a pass over the training data
// that often, the last step filled up. Call it after fit_to_world(). The configuration then has steps, and no epochs.
void settle_epochs(LoadedConfig& loaded, std::int64_t samples);

// The same samples a step from another world: accumulate, so that batch * accumulate * world == global_batch. Throws
// ConfigError where there is none. `train`: fitted to the first world.
std::int64_t accumulate_in(std::int64_t world, const TrainConfig& train);

// Samples that the rank with the largest share takes in a micro-batch, as far as the configuration says it: without
// train.share_most, measured shares have no bound, and this is their mean.
std::int64_t most_samples(const TrainConfig& train);

}  // namespace zero
