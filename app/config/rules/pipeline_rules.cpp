#include "app/config/rules/pipeline_rules.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/plan/pipeline/plan_passes.h"

#include "app/config/options/option.h"
#include "app/config/rules/read_keys.h"

namespace zero {
namespace {

constexpr std::string_view kNotYet = "this does not work with a pipeline yet";

// Refuses a key's value together with a pipeline.
class PipelineRefusals {
 public:
  explicit PipelineRefusals(const LoadedConfig& loaded) : loaded_(loaded) {}

  void unless(bool works, std::string_view name, std::string_view reason, std::string_view remedy) const {
    if (works) return;
    const auto origin = loaded_.origins.find(name);
    throw ConfigError(located(origin == loaded_.origins.end() ? "" : origin->second, name),
                      shown(to_toml(get_option(loaded_.config, *find_option(name)))),
                      fmt::format("{} (parallel.pipeline = {})", reason, loaded_.config.parallel.pipeline),
                      fmt::format("{}, or set parallel.pipeline = 1", remedy));
  }
  void unless(bool works, std::string_view name, std::string_view remedy) const {
    unless(works, name, kNotYet, remedy);
  }

 private:
  const LoadedConfig& loaded_;
};

// A key of a pipeline that is given without one.
void require_pipeline_for(const LoadedConfig& loaded, std::string_view name, bool is_set) {
  if (!is_set || rank_of(loaded, name) < rank_of(loaded, "parallel.pipeline")) return;
  const auto origin = loaded.origins.find(name);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, name),
                    shown(to_toml(get_option(loaded.config, *find_option(name)))),
                    "it has no effect without a pipeline (parallel.pipeline = 1)",
                    "set parallel.pipeline to 2 or more, or leave it out");
}

void refuse_unused_memory(const LoadedConfig& loaded) {
  constexpr std::string_view kName = "parallel.activation_memory";
  const auto origin = loaded.origins.find(kName);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, kName),
                    shown(to_toml(get_option(loaded.config, *find_option(kName)))),
                    fmt::format("it has no effect with parallel.schedule = {}: it limits the choice of an order",
                                name_of(loaded.config.parallel.schedule)),
                    "leave it out, or set parallel.schedule to auto");
}

void check_updates(const PipelineRefusals& refuse, const Config& config) {
  const AttachOptions& engine = config.engine;
  refuse.unless(engine.sync.mode == SyncMode::kSync && !config.local.on, "sync.mode", "use sync.mode sync");
  refuse.unless(engine.sync.servers == 0, "sync.servers", "use 0");
  refuse.unless(!engine.delayed_update, "zero.delayed_update", "use false");
  refuse.unless(config.train.gradient_noise == 0, "train.gradient_noise", "use 0");
  refuse.unless(config.train.share.kind == ShareKind::kEqual, "train.share",
                "the ranks of a line read the same samples", "use equal");
}

void check_run(const PipelineRefusals& refuse, const Config& config) {
  refuse.unless(config.run.device == "cpu", "run.device", "use cpu");
  refuse.unless(config.checkpoint.memory_every == 0, "checkpoint.memory_every", "use 0, and checkpoint.every");
  constexpr std::string_view kCodes = "codes depend on a unit's number, and each section numbers its own";
  refuse.unless(config.engine.wire.gather == WireCodec::kNone, "comm.gather_wire", kCodes, "use none");
  refuse.unless(config.engine.wire.reduce == WireCodec::kNone, "comm.reduce_wire", kCodes, "use none");
  refuse.unless(config.engine.wire.outer == WireCodec::kNone, "comm.outer_wire", kCodes, "use none");
}

}  // namespace

void check_pipeline(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  const PipelineOptions& parallel = config.parallel;
  if (parallel.pipeline == 1) {
    require_pipeline_for(loaded, "parallel.sections", parallel.sections > 0);
    require_pipeline_for(loaded, "parallel.schedule", parallel.schedule != PipelineOptions{}.schedule);
    require_pipeline_for(loaded, "parallel.depth", parallel.depth > 0);
    require_pipeline_for(loaded, "parallel.activation_memory", parallel.activation_memory > 0);
    require_pipeline_for(loaded, "parallel.cut", parallel.cut != CutBy::kWork || !parallel.first_units.empty());
    return;
  }
  if (parallel.activation_memory > 0 && parallel.schedule != PassOrder::kAuto) refuse_unused_memory(loaded);
  const PipelineRefusals refuse(loaded);
  check_updates(refuse, config);
  check_run(refuse, config);
}

void require_divides(const Config& config, std::int64_t world, std::string_view key) {
  const int pipeline = config.parallel.pipeline;
  if (world % pipeline == 0) return;
  throw ConfigError(key, std::to_string(pipeline),
                    fmt::format("it must divide the number of ranks, which is {}", world),
                    "use a divisor of that number, or start another number of ranks (-n); 1: no pipeline");
}

void require_passes(const Config& config) {
  const PipelineOptions& parallel = config.parallel;
  if (parallel.pipeline == 1) return;
  const bool chooses = parallel.schedule == PassOrder::kAuto;
  const int asked = asked_sections(parallel);
  const int sections =
      asked > 0 ? asked : default_sections(chooses ? PassOrder::kInterleaved : parallel.schedule, parallel.pipeline);
  constexpr std::int64_t kMostPasses = 10'000'000;  // of a section's kind in a step: they are listed in memory
  const std::int64_t accumulate = config.train.accumulate;
  if (accumulate > kMostPasses / sections)
    throw ConfigError(
        "train.accumulate", std::to_string(accumulate),
        fmt::format("with {} sections a step of a pipeline would have more than {} passes", sections, kMostPasses),
        "use fewer micro-batches");
  require_pipeline(parallel, static_cast<int>(accumulate));
}

}  // namespace zero
