#include "app/cli/torch_verbs/job.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/descriptor_limit.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/safetensors/published_config.h"
#include "zero/device/device_name.h"
#include "zero/device/open_device.h"
#include "zero/optim/rule_registry.h"
#include "zero/torch/seam/torch_device.h"

#include "app/config/options/option.h"
#include "app/config/rules/fit_to_world.h"
#include "app/data/open_data.h"
#include "app/train/folder/run_files.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/weights/run_words.h"

namespace zero::cli {
namespace {

// Makes the groups of the configuration, and then one group for all other parameters. In a group without its own
// weight_decay, only parameters with two or more dimensions decay.
std::vector<ParameterGroup> parameter_groups(const OptimizerKeys& o) {
  std::vector<ParameterGroup> groups;
  const auto add = [&](const std::string& pattern, std::optional<double> weight_decay, double lr_scale,
                       const std::string& rule) {
    const std::optional<bool> matrices = rule.empty() ? std::nullopt : std::optional(rule == o.name);
    const auto takes = [pattern](const ParamSpec& spec) {
      return pattern.empty() || fnmatch(pattern.c_str(), spec.name.c_str(), 0) == 0;
    };
    if (weight_decay) {
      groups.push_back({takes, *weight_decay, lr_scale, matrices, pattern});
      return;
    }
    const auto decays = [takes](const ParamSpec& spec) { return spec.shape.size() >= 2 && takes(spec); };
    groups.push_back({decays, o.weight_decay, lr_scale, matrices, pattern});
    groups.push_back({takes, 0.0, lr_scale, matrices, pattern});
  };
  for (const GroupKeys& group : o.group) add(group.parameters, group.weight_decay, group.lr_scale, group.rule);
  if (!groups.empty()) add("", std::nullopt, 1, "");
  return groups;
}

// Returns whether the model computes on a GPU. "auto" does if this machine has a GPU that libtorch can use.
bool computes_on_gpu(const Config& config) {
  const std::optional<DeviceName> device = device_name(config.run.device);
  if (!device || !device->is_auto()) return device && device->is_gpu();
  const GpusHere here = find_gpus(/*memory=*/false);
  return !here.gpus.empty() && try_torch_cuda().empty();
}

// Returns the memory of each budget that offloaded activations take.
ActivationOffloadNeed need_of(const Config& config, const ModelOptions& model) {
  const std::int64_t context = sample_context(model, config.data.context);
  const OffloadedInput inputs = offloaded_inputs(model, most_samples(config.train), context, *config.engine.dtype);
  return model.activation_offload ? activation_offload_need(*model.activation_offload, inputs.count, inputs.bytes)
                                  : ActivationOffloadNeed{};
}

void require(std::string_view key, std::int64_t budget, std::int64_t need, const Config& config) {
  if (need <= budget) return;
  throw ConfigError(
      key, format_bytes(budget),
      fmt::format("train.offload_activations = \"{}\" takes {} B of it a rank ({}): the inputs of {} blocks",
                  word_of(config, "train.offload_activations"), need, format_bytes(need), config.model.layers),
      "allow that and the bytes of the states; a smaller train.batch, data.context or model.width needs less");
}

// Subtracts offloaded activations from the budgets; no other function does. attach() then uses the rest for states. At
// least one byte stays, because a budget of 0 would mean "as needed" to attach().
void take_off_activations(AttachOptions& options, const Config& config) {
  const ActivationOffloadNeed need = activation_need(config);
  for (const Tier tier : kAllTiers) {
    std::int64_t* const budget = budget_bytes(options, tier);
    if (need[tier] <= 0 || budget == nullptr) continue;
    require(facts_of(tier).budget, *budget, need[tier], config);
    *budget = std::max<std::int64_t>(*budget - need[tier], 1);
  }
}

// The schedule reads optimizer.lr and train.steps, which other parts read also.
LrSchedule schedule_of(const Config& config) {
  LrSchedule schedule = config.schedule;
  schedule.lr = config.optimizer.lr;
  schedule.steps = config.train.steps;
  return schedule;
}

// Ignores keys of another mode: they were given for a mode that has been overruled.
SyncPlan sync_plan(const SyncPlan& keys) {
  SyncPlan plan{.mode = keys.mode, .servers = keys.servers};
  if (plan.mode != SyncMode::kSync) plan.staleness = keys.staleness;
  if (plan.mode == SyncMode::kAsync) {
    plan.stale_lr = keys.stale_lr;
    plan.compensation = keys.compensation;
  }
  if (plan.mode == SyncMode::kSync && plan.has_servers()) plan.quorum = keys.quorum;
  return plan;
}

// Servers and workers have no timeline, because a timeline needs ranks that step together.
TimelineOptions timeline_options(const Config& config) {
  if (!config.timeline.file.empty()) return config.timeline;
  if (config.engine.sync.has_servers()) return {};
  return {.file = RunFiles("").timeline.string(), .asked = false};
}

// Returns whether the usable cores are those of one rank. `zero launch` says it. Other launchers do not: if the machine
// has as many cores for each rank, they are.
bool has_own_cores(int usable, int local_ranks) {
  const char* const said = std::getenv("ZERO_CORES_BOUND");
  if (said != nullptr && *said != '\0') return std::string_view(said) == "1";
  return usable * local_ranks <= static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

// Returns the cores of a rank: those to which its launcher bound it, else its share of the machine's cores.
int threads_of(const Config& config, int local_ranks) {
  if (config.run.threads > 0) return static_cast<int>(config.run.threads);
  const int usable = num_usable_cores();
  return std::max(1, has_own_cores(usable, local_ranks) ? usable : usable / local_ranks);
}

bool is_there(const DataFiles& files) {
  return !files.empty() && std::ranges::all_of(files.paths, [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  });
}

}  // namespace

ModelOptions model_options(const Config& config) {
  ModelOptions model = config.model;
  if (auto& offload = model.activation_offload) {
    offload->disk = config.engine.offload.disk;
    offload->checksums = config.engine.offload.checksums;
    offload->link_bytes_per_second = config.engine.offload.link_bytes_per_second;
    offload->from_device = computes_on_gpu(config);
    offload->expected_bytes = need_of(config, model)[offload->tier];
    if (budget_bytes(config.engine, offload->tier) != nullptr) offload->most_bytes = offload->expected_bytes;
  }
  return model;
}

AttachOptions attach_options(const Config& config, int local_ranks) {
  AttachOptions options = config.engine;
  // The command line may choose another cut than the file whose weights these are.
  if (options.shards != Cut::kWeighted) options.shard_weights.clear();
  if (config.local.on) options.local = config.local;
  options.sync = sync_plan(config.engine.sync);
  if (config.comm.topk) options.wire.outer_topk = config.comm.topk_share;
  options.align_bytes = computes_on_gpu(config) ? kGpuAlignBytes : kHostAlignBytes;
  options.optimizer = optimizer_options(config.optimizer.name, config.optimizer);
  options.accumulate = static_cast<int>(config.train.accumulate);
  options.leaves = static_cast<int>(config.train.leaves);
  if (options.reduce_dtype == options.dtype) options.reduce_dtype.reset();
  // fp16 needs a loss scale. The other types have the range of fp32.
  const bool scales = options.dtype == DType::kFloat16;
  options.loss_scale = scales ? std::optional(options.loss_scale.value_or(LossScaleOptions{})) : std::nullopt;
  options.groups = parameter_groups(config.optimizer);
  options.threads = threads_of(config, local_ranks);
  take_off_activations(options, config);
  return options;
}

ActivationOffloadNeed activations_beside_budget(const Config& config) {
  ActivationOffloadNeed need = activation_need(config);
  if (budget_bytes(config.engine, Tier::kHost) != nullptr) need.host = 0;
  return need;
}

ActivationOffloadNeed activation_need(const Config& config) {
  return need_of(config, model_options(config));
}

TrainJob make_job(const Config& config, int local_ranks) {
  return {.model = model_options(config),
          .data = config.data,
          .train = config.train,
          .schedule = schedule_of(config),
          .checkpoint = config.checkpoint,
          .health = config.health,
          .attach = attach_options(config, local_ranks),
          .pipeline = config.parallel,
          .activation_bytes = activations_beside_budget(config),
          .run_dir = config.run.dir,
          .probe_again = config.zero.probe_rates,
          .config_text = resolved_toml(config),
          .config_hash = config_hash(config),
          .timeline = timeline_options(config),
          .tensorboard = config.run.tensorboard};
}

std::optional<Corpus> corpus_here(const Config& config) {
  DataOptions data = config.data;
  data.context = sample_context(model_options(config), config.data.context);
  if (!is_there(config.data.path)) return std::nullopt;
  const DescriptorLimit descriptors;
  return open_data(data);
}

std::optional<Corpus> corpus_here(const Config& config, const TrainJob& job) {
  if (!is_there(config.data.path)) return std::nullopt;
  const DescriptorLimit descriptors;
  return open_corpus(job);
}

std::optional<std::int64_t> samples_of_pass(const Config& config) {
  const auto corpus = corpus_here(config);
  return corpus ? std::optional(corpus->train->pass_size()) : std::nullopt;
}

std::optional<std::int64_t> samples_of_validation(const Config& config) {
  const auto corpus = corpus_here(config);
  if (!corpus) return std::nullopt;
  return corpus->validation ? corpus->validation->pass_size() : 0;
}

SampleShape planned_shape(const Config& config) {
  const ModelOptions model = model_options(config);
  const ModelKind& kind = model_kind(model.name);
  DataOptions data = config.data;
  data.context = sample_context(model, config.data.context);
  if (const auto shape = kind.planned_shape(model, data.kind, data.context)) return *shape;
  if (!is_there(config.data.path)) {
    ModelOptions with_vocab = model;
    with_vocab.vocab = 1;
    const bool takes_vocab = kind.planned_shape(with_vocab, data.kind, data.context).has_value();
    throw ConfigError("data.path", config.data.path.text(),
                      "the model's size depends on this file, and the file does not exist here",
                      takes_vocab ? "set model.vocab, or name the data" : "name the data");
  }
  const DescriptorLimit descriptors;
  if (learns_words(data) && !model.init.empty())
    data.known_words = words_in(folder_of_weights(model.init), "model.init");
  return open_data(data).shape();
}

}  // namespace zero::cli
