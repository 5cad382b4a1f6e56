#include "app/cli/verify/audit_plan.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/no_run.h"
#include "zero/checkpoint/read/checkpoint_reader.h"

#include "app/config/bits.h"
#include "app/config/load.h"
#include "app/config/options/option.h"
#include "app/config/resolved.h"
#include "app/config/rules/fit_to_world.h"
#include "app/report/same_configuration.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_steps(const AuditRequest& request, const std::string& reason, const std::string& remedy) {
  const auto text = [](const std::optional<std::int64_t>& step) { return step ? fmt::format("{}", *step) : ""; };
  throw ConfigError("--steps", fmt::format("{}..{}", text(request.first), text(request.last)), reason, remedy);
}

void require_run(const fs::path& run) {
  if (const auto no_run = why_no_run(run)) throw ConfigError("RUN", run.string(), no_run->reason, no_run->remedy);
  std::error_code ignored;
  if (!fs::exists(run / "config.toml", ignored))
    throw ConfigError("RUN", run.string(), "checkpoints without the config.toml of their run",
                      "name the [run] dir of a `zero train`");
}

// Returns all checkpoints, ascending. Only manifests are read.
std::vector<KeptCheckpoint> checkpoints_in(const fs::path& run) {
  std::vector<KeptCheckpoint> all;
  for (const auto& entry : CheckpointFolder(run / "checkpoints").list()) {
    KeptCheckpoint kept{.step = entry.step, .path = entry.path, .manifest = {}, .damage = ""};
    try {
      kept.manifest = read_manifest(entry.path);
    } catch (const IoError& error) {
      kept.damage = error.what();
    }
    all.push_back(std::move(kept));
  }
  std::ranges::sort(all, {}, &KeptCheckpoint::step);
  return all;
}

void verify_bytes(KeptCheckpoint& kept) {
  if (!kept.damage.empty()) return;
  try {
    CheckpointReader(kept.path).verify();
  } catch (const IoError& error) {
    kept.damage = error.what();
  }
}

// Settles A and B. `end`: the last step of which the run has a record.
void settle_range(AuditPlan& plan, const AuditRequest& request, const std::vector<KeptCheckpoint>& all) {
  const std::int64_t end = plan.records.last_step();
  if (end == 0)
    throw ConfigError("RUN", plan.run.string(), "its metrics.jsonl has no step: there is nothing to compare with",
                      "name a run that has done a step");
  if (all.empty() && (!request.first || !request.last))
    throw ConfigError("RUN", plan.run.string(), "it keeps no checkpoint, so it has no first and last one",
                      fmt::format("--steps 0..{} begins with the initial weights, and compares losses", end));
  plan.first = request.first.value_or(all.empty() ? 0 : all.front().step);
  plan.last = request.last.value_or(all.empty() ? end : std::min(all.back().step, end));
  if (!request.first && !request.last && plan.first >= plan.last)
    throw ConfigError(
        "RUN", plan.run.string(),
        fmt::format("its only checkpoint is that of step {}, so there is no step between two", plan.first),
        fmt::format("--steps 0..{} begins with the initial weights", std::max(plan.first, plan.last)));
  if (plan.first >= plan.last)
    refuse_steps(request, fmt::format("no step is between {} and {}", plan.first, plan.last),
                 fmt::format("A must be less than B; the run's steps are 0 to {}", end));
  if (plan.last > end)
    refuse_steps(request, fmt::format("the run has done {}", format_count(end, "step")),
                 fmt::format("B may be at most {}", end));
}

// Chooses the state with which the execution begins.
void choose_start(AuditPlan& plan, std::vector<KeptCheckpoint> all) {
  std::vector<KeptCheckpoint> before, damaged;
  for (KeptCheckpoint& kept : all) {
    if (kept.step > plan.last) continue;
    (kept.step <= plan.first ? before : plan.kept).push_back(std::move(kept));
  }
  // The newest undamaged checkpoint before A; damaged ones after it are reported.
  while (!before.empty()) {
    verify_bytes(before.back());
    const bool is_whole = before.back().damage.empty();
    if (is_whole) {
      plan.start = before.back().step;
      plan.start_path = before.back().path;
    }
    damaged.insert(damaged.begin(), std::move(before.back()));
    before.pop_back();
    if (is_whole) break;
  }
  for (KeptCheckpoint& kept : plan.kept) verify_bytes(kept);
  const bool lost_start = plan.start_path.empty() && !damaged.empty();
  plan.kept.insert(plan.kept.begin(), std::make_move_iterator(damaged.begin()), std::make_move_iterator(damaged.end()));
  // Rather than executing a long run from its beginning, the first whole checkpoint in the range is the start.
  if (lost_start) {
    const auto whole = std::ranges::find_if(
        plan.kept, [&](const KeptCheckpoint& kept) { return kept.damage.empty() && kept.step < plan.last; });
    if (whole != plan.kept.end()) {
      plan.start = plan.first = whole->step;
      plan.start_path = whole->path;
      plan.notes.push_back(fmt::format(
          "no undamaged checkpoint is before step {}: the steps up to it are not executed (--steps 0..{} would)",
          whole->step, plan.last));
    }
  }
}

// The configurations of the steps: each checkpoint has that of the steps before it; config.toml has that of the last
// ones.
struct Configuration {
  std::string text, place;
  std::int64_t until = 0;
};

std::vector<Configuration> configurations_of(const AuditPlan& plan, const std::vector<KeptCheckpoint>& all) {
  std::vector<Configuration> found;
  for (const KeptCheckpoint& kept : all) {
    if (kept.step <= plan.start || kept.manifest.config.empty()) continue;
    found.push_back({kept.manifest.config, fmt::format("the checkpoint of step {}", kept.step), kept.step});
    if (kept.step >= plan.last) return found;
  }
  found.push_back({read_file(plan.run / "config.toml"), (plan.run / "config.toml").string(), plan.last});
  return found;
}

Config load(const Configuration& from, const AuditRequest& request, bool with_overrides, Origins* origins = nullptr) {
  LoadedConfig loaded = load_config({.file = {},
                                     .text = from.text,
                                     .text_name = from.place,
                                     .overrides = with_overrides ? request.overrides : std::vector<Setting>{},
                                     .environment = with_overrides ? request.environment : std::vector<std::string>{},
                                     .check_files = with_overrides,
                                     .recorded = true});
  if (origins != nullptr) *origins = std::move(loaded.origins);
  return std::move(loaded.config);
}

// Calls visit(key, before, now) for each key that differs.
template <typename Visit>
void for_each_change(const Config& before, const Config& now, Visit visit) {
  const ConfigurationKeys then = keys_of_configuration(resolved_toml(before)),
                          here = keys_of_configuration(resolved_toml(now));
  for (const auto& [key, value] : here)
    if (const auto found = then.find(key); found == then.end() || found->second != value)
      visit(key, found == then.end() ? std::string("(none)") : found->second, value);
}

// Does a change of this key between two checkpoints change a record of the steps?
bool changes_records(std::string_view key, const Config& config) {
  if (key == "checkpoint.keep_best") return true;  // the last step has one more evaluation
  // A save applies the gradient that a delayed update holds back.
  if (key == "checkpoint.every") return config.engine.delayed_update;
  return !key.starts_with("checkpoint.") && !why_bits_change(key, config).empty();
}

void require_one_configuration(const AuditRequest& request, const AuditPlan& plan,
                               const std::vector<Configuration>& all) {
  const Config first = load(all.front(), request, /*with_overrides=*/false);
  for (std::size_t i = 1; i < all.size(); ++i) {
    for_each_change(first, load(all[i], request, false), [&](const auto& key, const auto& before, const auto& now) {
      if (!changes_records(key, first)) return;
      throw ConfigError("--steps", fmt::format("{}..{}", plan.first, plan.last),
                        fmt::format("the run changed between: {} has {} = {}, and {} has {}", all.front().place, key,
                                    before, all[i].place, now),
                        fmt::format("verify the parts one by one: --steps {0}..{1}, then --steps {1}..{2}", plan.first,
                                    all[i - 1].until, plan.last));
    });
  }
}

void require_same_bits(const Config& recorded, const Config& asked, const Origins& origins) {
  for_each_change(recorded, asked, [&](const std::string& key, const std::string& before, const std::string& now) {
    const std::string_view why = key == "train.steps" ? "--steps chooses the steps" : why_bits_change(key, recorded);
    if (why.empty()) return;
    const auto origin = origins.find(key);
    throw ConfigError(located(origin == origins.end() ? "" : origin->second, key), now,
                      fmt::format("the run had {}, and other bits would follow: {}", before, why),
                      "leave it out; the stage, placement, transport and pipeline may be others");
  });
}

// Refuses runs whose bits depend on more than their records say.
void require_repeatable(const AuditPlan& plan) {
  const Config& config = plan.config;
  const SyncPlan& sync = config.engine.sync;
  if (sync.has_servers())
    throw ConfigError("sync.mode", word_of(config, "sync.mode"), "the run had servers, and this verb executes none",
                      fmt::format("`zero train --replay {}` repeats such a run from its beginning", plan.run.string()));
  if (config.train.share.kind == ShareKind::kMeasured)
    throw ConfigError("train.share", "auto", "the ranks' shares followed from their speed, and are not recorded",
                      "a run with named shares, such as [7, 5], can be verified");
  for (const Rewind& rewind : plan.records.rewinds) {
    if (rewind.back_to < plan.start || rewind.back_to >= plan.last) continue;
    throw ConfigError(
        "--steps", fmt::format("{}..{}", plan.first, plan.last),
        fmt::format("the run returned to step {} after step {}, and its log has only the steps after that",
                    rewind.back_to, rewind.from),
        fmt::format("choose steps up to {}, or from a later checkpoint on", rewind.back_to));
  }
}

std::vector<std::string> split_places(const std::string& text) {
  std::vector<std::string> places;
  constexpr std::string_view kBetween = "; threads ";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find(kBetween, begin);
    places.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    begin = end == std::string::npos ? text.size() : end + 2;
  }
  return places;
}

std::string note_of(const Manifest& manifest, const char* key) {
  const auto found = manifest.run.find(key);
  return found == manifest.run.end() ? "" : found->second;
}

// The steps after which states are compared: those that the run has saved, if it keeps them or logged their sums.
std::vector<std::int64_t> steps_to_save(const AuditPlan& plan) {
  std::set<std::int64_t> steps{plan.last};
  for (const KeptCheckpoint& kept : plan.kept) steps.insert(kept.step);
  for (const auto& [step, sums] : plan.records.saved) steps.insert(step);
  const CheckpointPolicy& policy = plan.config.checkpoint;
  // A save applies the gradient that a delayed update holds back, so the same steps must be saved.
  if (plan.config.engine.delayed_update && policy.every_steps > 0)
    for (std::int64_t step = policy.every_steps; step < plan.last; step += policy.every_steps) steps.insert(step);
  std::vector<std::int64_t> in_range;
  for (const std::int64_t step : steps)
    if (step > plan.start && step <= plan.last) in_range.push_back(step);
  return in_range;
}

// Another number of ranks divides the leaves of a step in another way.
void divide_leaves(AuditPlan& plan, const Config& recorded) {
  Config& config = plan.config;
  if (config.engine.reduce == recorded.engine.reduce) config.engine.reduce = Reduce::kAuto;
  config.train.accumulate = accumulate_in(plan.ranks, config);
}

void settle_ranks(AuditPlan& plan, const AuditRequest& request, const Config& recorded) {
  const std::int64_t of_run = ranks_of_fitted(recorded);
  if (of_run == 0)
    throw ConfigError("RUN", plan.run.string(), "its configuration does not say how many ranks it had",
                      "it needs train.batch, train.accumulate and train.global_batch");
  const std::int64_t needed = of_run / recorded.parallel.pipeline * plan.config.parallel.pipeline;
  plan.ranks = request.ranks.value_or(needed);
  const std::string_view why = why_bits_change_with_ranks(recorded);
  if (plan.ranks == needed) return;
  if (why.empty()) return divide_leaves(plan, recorded);
  throw ConfigError("-n", fmt::format("{}", plan.ranks),
                    fmt::format("the run had {}, and other bits would follow: {}", format_count(of_run, "rank"), why),
                    fmt::format("leave it out, or use -n {}{}", needed,
                                plan.config.parallel.pipeline > 1
                                    ? fmt::format(" (parallel.pipeline = {})", plan.config.parallel.pipeline)
                                    : ""));
}

}  // namespace

void parse_steps(const std::string& text, AuditRequest& request) {
  const auto refuse = [&] {
    throw ConfigError("--steps", text, "not a range of steps", "write A..B, such as 500..1000; A or B may be left out");
  };
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos || text.size() == 2) refuse();
  const auto number = [&](std::string_view part) -> std::optional<std::int64_t> {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (!part.empty() && (error != std::errc() || end != part.data() + part.size() || value < 0)) refuse();
    return part.empty() ? std::nullopt : std::optional(value);
  };
  request.first = number(std::string_view(text).substr(0, dots));
  request.last = number(std::string_view(text).substr(dots + 2));
}

AuditPlan plan_audit(const AuditRequest& request) {
  require_run(request.run);
  AuditPlan plan;
  plan.run = request.run;
  plan.records = read_records(request.run / "metrics.jsonl");
  std::error_code ignored;
  plan.is_done = fs::exists(request.run / "report.json", ignored);
  const std::vector<KeptCheckpoint> all = checkpoints_in(request.run);
  settle_range(plan, request, all);
  choose_start(plan, all);
  const std::vector<Configuration> configurations = configurations_of(plan, all);
  require_one_configuration(request, plan, configurations);
  const Config recorded = load(configurations.front(), request, /*with_overrides=*/false);
  Origins origins;
  plan.config = load(configurations.front(), request, /*with_overrides=*/true, &origins);
  const auto origin_of_folder = origins.find("run.dir");
  plan.has_run_dir = origin_of_folder != origins.end() && origin_of_folder->second == "command line";
  require_same_bits(recorded, plan.config, origins);
  if (plan.config.parallel.pipeline == 1) plan.config.parallel = {};  // its order and sections have no effect
  require_repeatable(plan);
  settle_ranks(plan, request, recorded);
  plan.saves = steps_to_save(plan);
  for (const KeptCheckpoint& kept : plan.kept.empty() ? all : plan.kept) {
    if (plan.data.empty()) plan.data = note_of(kept.manifest, "data");
    if (plan.places.empty()) plan.places = split_places(note_of(kept.manifest, "places"));
  }
  if (!plan.is_done)
    plan.notes.push_back(fmt::format("the run has not ended: it has logged {} of {} steps", plan.records.last_step(),
                                     plan.config.train.steps));
  if (plan.places.empty())
    plan.notes.emplace_back("the run did not record its threads, versions and processor: other ones change last bits");
  return plan;
}

}  // namespace zero::cli
