#include "app/config/rules/rules.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/name_lists.h"
#include "zero/checkpoint/safetensors/companion_files.h"
#include "zero/optim/rule_registry.h"

#include "app/config/options/option.h"
#include "app/config/rules/device_rules.h"
#include "app/config/rules/leaf_rules.h"
#include "app/config/rules/model_rules.h"
#include "app/config/rules/pipeline_rules.h"
#include "app/config/rules/read_keys.h"
#include "app/config/rules/schedule_rules.h"
#include "app/config/rules/thread_rules.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const LoadedConfig& loaded, std::string_view name, std::string_view reason,
                         std::string_view remedy) {
  const auto origin = loaded.origins.find(name);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, name),
                    shown(to_toml(get_option(loaded.config, *find_option(name)))), reason, remedy);
}

std::string divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor <= number && divisors.size() < 12; ++divisor) {
    if (number % divisor == 0) divisors.push_back(divisor);
  }
  return fmt::format("{}", fmt::join(divisors, ", "));
}

void check_heads(const LoadedConfig& loaded) {
  const auto& model = loaded.config.model;
  const ModelRow& row = model_row(model.name);
  if (row.takes("model.heads") && model.width % model.heads != 0)
    refuse(loaded, "model.heads", fmt::format("must divide model.width = {}", model.width),
           "use " + divisors_of(model.width));
  if (row.takes("model.kv_heads") && model.kv_heads > 0 && model.heads % model.kv_heads != 0)
    refuse(loaded, "model.kv_heads", fmt::format("must divide model.heads = {}", model.heads),
           fmt::format("use {}, or 0 (same as model.heads)", divisors_of(model.heads)));
}

void check_model_fits_data(const LoadedConfig& loaded) {
  const auto& [model, data] = std::tie(loaded.config.model, loaded.config.data);
  const ModelRow& row = model_row(model.name);
  if (row.reads(name_of(data.kind))) return;
  refuse(loaded, "data.kind", fmt::format("model.name = \"{}\" does not read it", model.name),
         fmt::format("use data.kind {}, or model.name {}", one_of(row.kinds), models_that_read(name_of(data.kind))));
}

// A csv has texts, which a bert classifies, or numbers.
void check_texts_of_csv(const LoadedConfig& loaded) {
  const auto& [model, data] = std::tie(loaded.config.model, loaded.config.data);
  if (data.kind != DataKind::kCsv) return;
  const bool reads_texts = model_row(model.name).reads("tsv");
  if (reads_texts && data.text_column.empty())
    refuse(loaded, "data.text_column",
           fmt::format("model.name = \"{}\" reads texts, and a csv without this key has numbers", model.name),
           "name the column of the texts; that of their classes is label, or data.label_column");
  if (!reads_texts && !data.text_column.empty())
    refuse(loaded, "data.text_column", fmt::format("model.name = \"{}\" reads numbers, and no texts", model.name),
           "leave it out, or use model.name " + models_that_read("tsv"));
}

void check_labels(const LoadedConfig& loaded) {
  const DataOptions& data = loaded.config.data;
  const std::vector<std::string>& labels = data.labels;
  if (labels.size() == 1)
    refuse(loaded, "data.labels", "one class leaves nothing to choose from", "name two or more, or leave it out");
  if (data.classes > 0 && !labels.empty() && data.classes != std::ssize(labels))
    refuse(loaded, "data.classes", fmt::format("data.labels names {} classes", labels.size()),
           "leave data.classes out");
}

void check_context(const LoadedConfig& loaded) {
  const auto& [model, data] = std::tie(loaded.config.model, loaded.config.data);
  if (has_context(data) && data.context > model.context) {
    refuse(loaded, "data.context", fmt::format("more than model.context = {}", model.context),
           fmt::format("use {} or less, 0 for the model's, or a larger model.context", model.context));
  }
}

bool is_given(const LoadedConfig& loaded, std::string_view name) {
  return loaded.origins.contains(name);
}

void check_groups(const LoadedConfig& loaded) {
  const OptimizerKeys& optimizer = loaded.config.optimizer;
  const RuleRow& row = rule_row(optimizer.name);
  for (const GroupKeys& group : optimizer.group) {
    if (group.rule.empty() || (!row.others.empty() && (group.rule == row.name || group.rule == row.others))) continue;
    const std::string matrices = rule_names(RuleNeeds::kMatrices);
    refuse(loaded, "optimizer.group",
           fmt::format("rule = \"{}\" of {} needs optimizer {}", group.rule, group.parameters, matrices),
           fmt::format("leave it out, or use optimizer.name {}", matrices));
  }
}

// Each folder is used as a separate disk. A folder that is named twice would receive tiles of two disks.
void check_disks(const LoadedConfig& loaded) {
  std::set<fs::path> folders;
  std::error_code error;
  for (const std::string& folder : loaded.config.engine.offload.disk) {
    if (!folders.insert(fs::weakly_canonical(folder, error)).second)
      refuse(loaded, "zero.disk", fmt::format("{} is named twice", folder), "name a folder on each disk");
  }
}

void check_dropout(const LoadedConfig& loaded) {
  if (loaded.config.model.dropout > 0 && loaded.config.comm.transport == "in_process") {
    refuse(loaded, "model.dropout", "in_process ranks are threads, and all threads share one random generator",
           "use comm.transport shared_memory, or dropout 0");
  }
}

void check_channels(const LoadedConfig& loaded) {
  if (loaded.config.data.channels == 2)
    refuse(loaded, "data.channels", "a picture cannot have two channels", "use 1 or 3");
}

// mnist has one channel, and does not read data.channels.
void check_mean_and_std(const LoadedConfig& loaded) {
  const DataOptions& data = loaded.config.data;
  const std::int64_t channels = data.kind == DataKind::kImages ? data.channels : 1;
  for (const auto& [name, numbers] :
       {std::pair("data.mean", &data.images.mean), std::pair("data.std", &data.images.deviation)}) {
    const std::int64_t count = std::ssize(*numbers);
    if (count > 1 && count != channels)
      refuse(loaded, name,
             fmt::format("{} for images of {}", format_count(count, "number"), format_count(channels, "channel")),
             channels == 1 ? "give one number" : "give one number, or three: of red, green and blue");
  }
}

// The last of model.sizes is the number of an mlp's outputs.
void check_classes(const LoadedConfig& loaded) {
  const auto& [model, data] = std::tie(loaded.config.model, loaded.config.data);
  if (data.classes == 0) return;
  if (data.classes == 1)
    refuse(loaded, "data.classes", "one class leaves nothing to choose from",
           "use 2 or more, or 0: as many as the data has");
  if (model_row(model.name).takes("model.sizes") && !model.sizes.empty() && model.sizes.back() != data.classes)
    refuse(loaded, "model.sizes", fmt::format("the last size must be data.classes = {}", data.classes),
           fmt::format("end it with {}, or leave data.classes out", data.classes));
}

// "auto" is allowed without a vocabulary, because a run's file contains it.
void check_lower_case(const LoadedConfig& loaded) {
  if (loaded.config.data.lower_case && loaded.config.data.vocab.empty())
    refuse(loaded, "data.lower_case",
           "without data.vocab words are learned, and learned words have only lower-case ASCII letters",
           "give data.vocab, or leave it out");
}

void check_checkpoint(const LoadedConfig& loaded) {
  const auto& config = loaded.config;
  if (config.model.checkpoint_activations && !model_row(config.model.name).has_blocks) {
    refuse(loaded, "train.checkpoint_activations",
           fmt::format("model.name = \"{}\" has no blocks to recompute", config.model.name),
           "set it to false, or use model.name " + names_where(kModelTable, &ModelRow::has_blocks));
  }
  if (!config.model.activation_offload) return;
  if (!config.model.checkpoint_activations) {
    refuse(loaded, "train.offload_activations",
           "only inputs of activation checkpoints can be offloaded, and train.checkpoint_activations is false",
           "set train.checkpoint_activations = true, or train.offload_activations = \"none\"");
  }
  if (config.model.offloads_to(Tier::kDisk) && config.engine.offload.disk.empty()) {
    refuse(loaded, "train.offload_activations", "no folder for the disk tier is set",
           "set zero.disk = [\"/path\"], with a folder on each disk, or use host");
  }
}

void check_share(const LoadedConfig& loaded) {
  const auto& [train, run] = std::tie(loaded.config.train, loaded.config.run);
  if (train.share.most > 0 && train.share.kind != ShareKind::kMeasured)
    refuse(loaded, "train.share_most", "only measured shares grow", "leave it out, or set train.share = \"auto\"");
  if (train.share.kind == ShareKind::kGiven && run.min_ranks > 0)
    refuse(loaded, "train.share", "run.min_ranks continues with fewer ranks, and these shares do not fit fewer ranks",
           "use \"auto\", or leave out run.min_ranks");
  if (train.share.kind == ShareKind::kMeasured && train.share.most == 0 && loaded.config.model.activation_offload)
    refuse(loaded, "train.share",
           "offloaded activations need a bound, because their memory is reserved before speeds are measured",
           "set train.share_most, or set the shares");
}

// Keys of the outer step have no effect without an outer step.
void check_sync(const LoadedConfig& loaded) {
  const auto& [train, engine, local] = std::tie(loaded.config.train, loaded.config.engine, loaded.config.local);
  if (!local.on) {
    const Config defaults;
    for (const std::string_view name :
         {"sync.local_steps", "sync.outer_lr", "sync.outer_momentum", "sync.fragments", "sync.overlap", "sync.mix"}) {
      const Option& option = *find_option(name);
      const bool changed = to_toml(get_option(loaded.config, option)) != to_toml(get_option(defaults, option));
      if (changed && is_given(loaded, name) && rank_of(loaded, name) >= rank_of(loaded, "sync.mode"))
        refuse(loaded, name, "only sync.mode local has an outer step", "set sync.mode local, or leave it out");
    }
    return;
  }
  if (local.overlap == 0 && local.mix != LocalSteps{}.mix)
    refuse(loaded, "sync.mix", "without sync.overlap copies continue with the merged weights",
           "set sync.overlap, or leave it out");
  const auto not_with_local = [&](std::string_view name, bool given, std::string_view reason, std::string_view remedy) {
    if (given) refuse(loaded, name, reason, remedy);
  };
  not_with_local("train.ema", engine.ema > 0, "the outer step averages copies that train apart (sync.mode local)",
                 "leave it out: evaluations and saved weights use the merged weights; or use sync.mode sync");
  not_with_local("optimizer.name", rule_row(loaded.config.optimizer.name).needs == RuleNeeds::kRowsAndColumns,
                 "with sync.mode local each copy would have its own states of rows and columns",
                 "use an optimizer without such states, for example adamw; or use sync.mode sync");
  not_with_local("zero.delayed_update", engine.delayed_update,
                 "an outer step (sync.mode local) would come between a gradient and its update",
                 "leave it out, or use sync.mode sync");
  not_with_local("train.share", train.share.kind != ShareKind::kEqual,
                 "with sync.mode local each copy takes the mean over its own samples, and all copies count equally",
                 "use equal, or sync.mode sync");
}

void check_average(const LoadedConfig& loaded) {
  const AttachOptions& engine = loaded.config.engine;
  if (engine.delayed_update && engine.ema > 0)
    refuse(loaded, "zero.delayed_update",
           fmt::format("the average of the weights (train.ema = {}) would also be a step late", engine.ema),
           "use either zero.delayed_update or train.ema");
}

// With shards of unequal size, every rank must gather the same units at the same time, and send blocks without a codec.
void check_weighted_shards(const LoadedConfig& loaded) {
  const AttachOptions& engine = loaded.config.engine;
  const OffloadOptions& offload = engine.offload;
  if (engine.wire.gather != WireCodec::kNone || engine.wire.reduce != WireCodec::kNone || loaded.config.comm.topk)
    refuse(loaded, "zero.shards",
           "codecs (comm.gather_wire, comm.reduce_wire, outer_wire = \"topk\") send equal blocks",
           "leave the codec out, or use range");
  const std::array<std::pair<std::string_view, TierFractions>, 3> states{
      {{"zero.parameter", offload.fractions.parameter},
       {"zero.gradient", offload.fractions.gradient},
       {"zero.optimizer", offload.fractions.optimizer}}};
  bool some_leave = false;
  for (const auto& [name, fractions] : states) {
    some_leave = some_leave || !fractions.on_device();
    const bool is_split = std::ranges::none_of(kLowerTiers, [&all = fractions](Tier tier) { return all[tier] == 1; });
    if (!fractions.on_device() && is_split)
      refuse(loaded, name,
             "with zero.shards weighted each rank has different shards, so each state must be on one tier",
             "use {host = 1} or {disk = 1}, or leave it out; or use zero.shards range");
  }
  if (offload.has_lower_room() && !some_leave && offload.automatic)
    refuse(loaded, "zero.shards",
           "one rank decides for all ranks which states leave the device, so shards must be equal",
           "set what leaves the device, for example zero.optimizer = {host = 1}; or set zero.placement device to keep "
           "all there; or use range");
}

void check_shards(const LoadedConfig& loaded) {
  const AttachOptions& engine = loaded.config.engine;
  if (engine.shards != Cut::kWeighted && !engine.shard_weights.empty() &&
      rank_of(loaded, "zero.shard_weights") >= rank_of(loaded, "zero.shards"))
    refuse(loaded, "zero.shard_weights", fmt::format("zero.shards = \"{}\" has no weights", name_of(engine.shards)),
           "leave it out, or set zero.shards weighted");
  if (!engine.shard_weights.empty() && loaded.config.run.min_ranks > 0)
    refuse(loaded, "zero.shard_weights",
           "run.min_ranks continues with fewer ranks, and these weights do not fit fewer ranks",
           "use \"auto\", or leave out run.min_ranks");
  if (engine.shards == Cut::kRange) return;
  if (engine.shards == Cut::kWeighted) check_weighted_shards(loaded);
  if (engine.shards != Cut::kHash) return;
  if (engine.stage < 3)
    refuse(loaded, "zero.shards",
           fmt::format("scattered parameters need a gather, and stage {} does not gather parameters", engine.stage),
           "use zero.stage 3; or use range or whole, which every stage supports");
  if (const RuleRow& rule = rule_row(loaded.config.optimizer.name); rule.needs == RuleNeeds::kMatrices)
    refuse(loaded, "zero.shards", fmt::format("{} updates whole matrices, and this would cut them", rule.name),
           "use range, or use whole, which gives each matrix to one rank");
}

// Keys of servers have no effect without servers, and some other keys do not work with servers.
void check_servers(const LoadedConfig& loaded) {
  const auto& [train, engine] = std::tie(loaded.config.train, loaded.config.engine);
  const SyncPlan& sync = engine.sync;
  const std::string_view mode = word_of(loaded.config, "sync.mode");
  const auto not_with = [&](std::string_view name, bool given, std::string_view reason, std::string_view remedy) {
    if (given) refuse(loaded, name, reason, remedy);
  };
  // If the command line changes the mode, the file may still have keys of its own mode.
  const auto of_mode = [&](std::string_view name, bool given, std::string_view reason, std::string_view remedy) {
    not_with(name, given && rank_of(loaded, name) >= rank_of(loaded, "sync.mode"), reason, remedy);
  };
  const bool stale = sync.mode == SyncMode::kStale, async = sync.mode == SyncMode::kAsync;
  of_mode("sync.servers", loaded.config.local.on && sync.servers > 0, "copies that train apart have no servers",
          "leave it out, or use sync.mode sync, stale or async");
  of_mode("sync.staleness", sync.staleness > 0 && !stale && !async,
          fmt::format("with sync.mode {} no gradient is stale", mode), "leave it out, or use sync.mode stale or async");
  of_mode("sync.staleness", stale && sync.staleness > kMostStaleness,
          "servers keep that many older versions of the weights", fmt::format("use at most {}", kMostStaleness));
  of_mode("sync.stale_lr", sync.stale_lr != SyncPlan{}.stale_lr && !async,
          "only sync.mode async uses the age of a gradient", "leave it out, or use sync.mode async");
  of_mode("sync.compensation", sync.compensation > 0 && !async,
          "only sync.mode async applies the gradients of single workers", "leave it out, or use sync.mode async");
  of_mode("sync.quorum", sync.quorum > 0 && (mode != "sync" || sync.servers == 0),
          "only servers with sync.mode sync continue without some gradients",
          "leave it out, or use sync.mode sync with sync.servers");
  not_with("sync.servers", (stale || async) && sync.servers == 0, fmt::format("sync.mode {} needs a server", mode),
           "use 1 or more, or leave it out");
  if (sync.servers == 0) return;
  not_with("zero.stage", engine.stage != 3, "servers also split parameters, and workers hold no states",
           "use 3, or leave out sync.servers");
  not_with("zero.group", engine.group != 0, "with servers only the servers hold the model, in one copy",
           "leave it out, or leave out sync.servers");
  not_with("zero.delayed_update", engine.delayed_update, "servers update each step before the next",
           "leave it out; with sync.mode stale workers continue during an update");
  not_with("train.dtype", engine.dtype == DType::kFloat16,
           "all workers would need one loss scale, and servers do not keep one",
           "use bf16 or fp32, or leave out sync.servers");
  not_with("train.share", train.share.kind != ShareKind::kEqual, "workers of servers share samples evenly",
           "use equal, or leave out sync.servers");
  not_with("train.gradient_noise", train.gradient_noise > 0,
           "one rank adds it for all ranks, and workers may continue without that rank",
           "leave it out, or leave out sync.servers");
  not_with("run.min_ranks", loaded.config.run.min_ranks > 0, "with fewer ranks the servers and workers would change",
           "leave it out, or leave out sync.servers");
  not_with("run.timeline", !loaded.config.timeline.file.empty(), "a timeline needs ranks that step together",
           "leave it out, or leave out sync.servers");
  const HealthOptions& health = loaded.config.health;
  not_with("health.non_finite", health.non_finite == HealthAction::kRewind,
           "a rewind would need workers to go back, and workers compute ahead of checkpoints",
           "use skip or stop, or leave out sync.servers");
  not_with("health.spike", health.spike == HealthAction::kRewind,
           "a rewind would need workers to go back, and workers compute ahead of checkpoints",
           "use ignore, skip or stop, or leave out sync.servers");
}

// fit_to_world() checks whether the groups divide the ranks.
void check_secondary(const LoadedConfig& loaded) {
  const AttachOptions& engine = loaded.config.engine;
  if (engine.secondary_group == 0) return;
  const auto not_with = [&](bool given, std::string_view reason, std::string_view remedy) {
    if (given) refuse(loaded, "zero.secondary_group", reason, remedy);
  };
  not_with(engine.stage != 3, fmt::format("at stage {} every rank holds whole weights already", engine.stage),
           "use zero.stage 3, which gathers them; or leave it out");
  not_with(engine.secondary_group == 1,
           "each rank would keep whole weights, and stage 2 does that without a second gather",
           "use zero.stage 2, or 2 or more ranks");
  not_with(engine.sync.servers > 0, "workers read weights from servers and do not gather",
           "leave it out, or use no servers (sync.servers)");
  not_with(loaded.config.local.on, "copies that train apart (sync.mode local) keep no secondary parts of their weights",
           "leave it out, or use sync.mode sync");
  not_with(engine.shards == Cut::kWeighted, "secondary parts need contiguous shards of one size",
           "leave it out, or use zero.shards range");
}

// A codec encodes values that are sent between ranks. It must not encode the only copy of a value.
void check_wire(const LoadedConfig& loaded) {
  const auto& [engine, comm] = std::tie(loaded.config.engine, loaded.config.comm);
  const bool is_local = loaded.config.local.on;
  const auto not_with = [&](std::string_view name, bool codes, bool given, std::string_view reason,
                            std::string_view remedy) {
    if (given && codes) refuse(loaded, name, reason, remedy);
  };
  const auto not_within = [&](bool given, std::string_view reason, std::string_view remedy) {
    not_with("comm.gather_wire", engine.wire.gather != WireCodec::kNone, given, reason, remedy);
    not_with("comm.reduce_wire", engine.wire.reduce != WireCodec::kNone, given, reason, remedy);
  };
  not_within(engine.sync.servers > 0, "servers and workers exchange gradients and weights without a codec",
             "leave it out, or use no servers (sync.servers)");
  not_with("comm.gather_wire", engine.wire.gather != WireCodec::kNone, engine.stage != 3,
           fmt::format("at stage {} a codec would round the parameters that a rank keeps", engine.stage),
           "use zero.stage 3, which keeps each rank's shard exact; or leave it out");
  not_within(engine.group == 1 || (is_local && engine.group == 0),
             "each rank holds a whole copy of the model, so ranks gather nothing within a copy",
             "leave it out, or set zero.group to 2 or more");
  not_with("comm.outer_wire", comm.topk || engine.wire.outer != WireCodec::kNone, !is_local && engine.group == 0,
           "the ranks hold one copy of the model, so no copies exchange gradients",
           "leave it out, or set zero.group, or use sync.mode local");
  if (comm.topk && !is_local)
    refuse(loaded, "comm.outer_wire",
           "only an outer step sends a share of the elements, and only sync.mode local has outer steps",
           "use int8 or int4, or sync.mode local");
  if (!comm.topk && comm.topk_share != CommKeys().topk_share &&
      rank_of(loaded, "comm.outer_topk") >= rank_of(loaded, "comm.outer_wire"))
    refuse(
        loaded, "comm.outer_topk",
        fmt::format("comm.outer_wire = \"{}\" sends all elements; only topk sends a share", name_of(engine.wire.outer)),
        "leave it out, or set comm.outer_wire = \"topk\"");
}

void check_types(const LoadedConfig& loaded) {
  const auto& [train, engine] = std::tie(loaded.config.train, loaded.config.engine);
  if (engine.reduce_dtype == DType::kFloat32 && engine.reduce == Reduce::kLast && train.accumulate > 1 &&
      train.leaves == 0 && engine.dtype != DType::kFloat32) {
    refuse(loaded, "train.reduce_dtype",
           "with train.reduce = \"last\" a rank sends its sum of micro-batches in train.dtype",
           "use train.reduce each, or train.reduce_dtype same");
  }
}

void check_health(const LoadedConfig& loaded) {
  const auto& [health, checkpoint] = std::tie(loaded.config.health, loaded.config.checkpoint);
  if (checkpoint.on()) return;
  const auto refuse_rewind = [&](std::string_view name) {
    refuse(loaded, name, "there are no checkpoints to return to: checkpoint.every = 0",
           "set checkpoint.every, or use skip or stop");
  };
  if (health.non_finite == HealthAction::kRewind) refuse_rewind("health.non_finite");
  if (health.spike == HealthAction::kRewind) refuse_rewind("health.spike");
  if (health.check_replicas > 0 && health.on_corruption == HealthAction::kRewind) refuse_rewind("health.on_corruption");
}

// The timeline is written into the run folder, and must not replace another file there.
void check_timeline(const LoadedConfig& loaded) {
  const std::string& name = loaded.config.timeline.file;
  if (name.empty()) return;
  const fs::path path(name);
  if (path.filename() != path || path.extension() != ".json") {
    refuse(loaded, "run.timeline", "not the name of a .json file", "use timeline.json: it is written into run.dir");
  }
  if (name == "report.json" || name == "config.json" || name == "preprocessor_config.json" || is_companion_name(name))
    refuse(loaded, "run.timeline", "the run writes another file of this name", "use timeline.json");
}

void check_given(const LoadedConfig& loaded) {
  if (loaded.config.data.path.empty()) {
    refuse(loaded, "data.path", "no data is set", "set [data] path = \"FILE\", or give --data.path FILE");
  }
  if (loaded.config.run.dir.empty()) {
    refuse(loaded, "run.dir", "no folder is set", "set [run] dir = \"runs/NAME\", or give --run.dir runs/NAME");
  }
}

// Refuses one of the files that a key names.
[[noreturn]] void refuse_file(const LoadedConfig& loaded, std::string_view name, const std::string& file,
                              std::string_view reason, std::string_view remedy) {
  const auto origin = loaded.origins.find(name);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, name), shown(to_toml(Value(file))),
                    reason, remedy);
}

void check_readable(const LoadedConfig& loaded, std::string_view name, const std::string& text,
                    std::string_view wanted = "file") {
  const fs::path path(text);
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) {
    const std::string folder =
        path.is_absolute() ? "" : fmt::format(" (looked in {})", fs::current_path(error).string());
    refuse_file(loaded, name, text,
                is_open_pattern(text) ? fmt::format("no file matches this pattern{}", folder)
                                      : fmt::format("no such {}{}", wanted, folder),
                "check the spelling; paths are relative to the current folder");
  }
  if (access(path.c_str(), R_OK) != 0)
    refuse_file(loaded, name, text, std::strerror(errno), fmt::format("make it readable: chmod u+r {}", text));
  if (fs::is_regular_file(status) && fs::file_size(path, error) == 0)
    refuse_file(loaded, name, text, "an empty file", "name a file with data in it");
}

void check_data(const LoadedConfig& loaded, std::string_view name, const DataFiles& files) {
  const DataKind kind = loaded.config.data.kind;
  if (files.paths.size() > 1 && kind != DataKind::kText && kind != DataKind::kTokens)
    refuse(loaded, name,
           fmt::format("{} files are given, and data.kind = \"{}\" reads only one file", files.paths.size(),
                       name_of(kind)),
           "name one file; only text and tokens can have several files");
  const std::string_view wanted = kind == DataKind::kImages  ? "folder"
                                  : kind == DataKind::kMnist ? "file or folder"
                                                             : "file";
  for (const std::string& file : files.paths) check_readable(loaded, name, file, wanted);
}

void check_run_folder(const LoadedConfig& loaded) {
  std::error_code error;
  fs::path at = fs::absolute(loaded.config.run.dir, error).lexically_normal();
  if (fs::exists(at, error) && !fs::is_directory(at, error)) {
    refuse(loaded, "run.dir", "exists and is not a folder", "name a folder; it is created");
  }
  // The nearest folder that exists decides whether the rest can be created.
  while (!fs::exists(at, error) && at != at.root_path()) at = at.parent_path();
  if (!fs::is_directory(at, error))
    refuse(loaded, "run.dir", fmt::format("{} is not a folder", at.string()), "name another folder");
  if (access(at.c_str(), W_OK | X_OK) != 0) {
    refuse(loaded, "run.dir", fmt::format("{}: {}", at.string(), std::strerror(errno)),
           "name a folder you may write to, for example --run.dir ~/runs/NAME");
  }
}

}  // namespace

namespace {

// Rounds to 15 digits, because a run's file should have 3e-05 for a tenth of 3e-4.
double tenth_of(double value) {
  return std::strtod(fmt::format("{:.15g}", value / 10).c_str(), nullptr);
}

// Sets keys that are not given to the defaults of the chosen rule.
void settle_optimizer(LoadedConfig& loaded) {
  for (const RuleKey& key : rule_row(loaded.config.optimizer.name).keys) {
    if (key.usual.empty() || is_given(loaded, key.name)) continue;
    set_option(loaded.config, *find_option(key.name),
               {std::string(key.name), parse_value(key.usual), std::string(key.usual), "", /*bare=*/false});
  }
}

}  // namespace

void settle_defaults(LoadedConfig& loaded) {
  auto& config = loaded.config;
  settle_length(loaded);
  settle_overruled(loaded);
  settle_optimizer(loaded);
  settle_schedule(loaded);
  if (!is_given(loaded, "schedule.min_lr")) config.schedule.min_lr = tenth_of(config.optimizer.lr);
  SyncPlan& sync = config.engine.sync;
  if (sync.mode != SyncMode::kSync && !is_given(loaded, "sync.servers")) sync.servers = 1;
  if (config.local.on && rank_of(loaded, "sync.servers") < rank_of(loaded, "sync.mode"))
    sync.servers = 0;  // a stronger source changed the mode
  // The resolved value is stored because "auto" meant "last" at stages 0 and 1 in earlier versions. A checkpoint of
  // such a version is then recognised to have another rule.
  const bool ranks_decide = config.train.leaves > 0;  // rules/leaf_rules.h
  if (config.engine.reduce == Reduce::kAuto && !ranks_decide) config.engine.reduce = Reduce::kEach;
}

void check_rules(const LoadedConfig& loaded) {
  check_model_fits_data(loaded);
  check_heads(loaded);
  check_texts_of_csv(loaded);
  check_labels(loaded);
  check_context(loaded);
  check_length(loaded);
  check_schedule(loaded);
  check_evaluations(loaded);
  check_groups(loaded);
  check_disks(loaded);
  check_dropout(loaded);
  check_channels(loaded);
  check_mean_and_std(loaded);
  check_classes(loaded);
  check_lower_case(loaded);
  check_checkpoint(loaded);
  check_share(loaded);
  check_sync(loaded);
  check_average(loaded);
  check_shards(loaded);
  check_servers(loaded);
  check_secondary(loaded);
  check_wire(loaded);
  check_types(loaded);
  check_health(loaded);
  check_timeline(loaded);
  check_device(loaded);
  check_pipeline(loaded);
  check_leaves(loaded);
}

void check_files(const LoadedConfig& loaded) {
  check_given(loaded);
  const auto& config = loaded.config;
  check_data(loaded, "data.path", config.data.path);
  if (const auto* files = std::get_if<DataFiles>(&config.data.validation))
    check_data(loaded, "data.validation", *files);
  if (!config.data.vocab.empty()) check_readable(loaded, "data.vocab", config.data.vocab);
  if (!config.data.tokenizer.empty()) check_readable(loaded, "data.tokenizer", config.data.tokenizer, "folder");
  if (!config.model.init.empty()) check_readable(loaded, "model.init", config.model.init, "file or folder");
  check_run_folder(loaded);
  require_threads(loaded);
}

}  // namespace zero
