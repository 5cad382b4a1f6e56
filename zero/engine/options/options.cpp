#include "zero/engine/options/options.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/device/device.h"
#include "zero/engine/options/outer_fragments.h"
#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/plan/units/secondary.h"
#include "zero/plan/units/weighted_cut.h"

namespace zero {

ParameterValues values_of(const AttachOptions& options, const ParamSpec& spec) {
  const double usual = spec.shape.size() >= 2 ? weight_decay(options.optimizer) : 0.0;
  const auto group = std::ranges::find_if(options.groups, [&](const ParameterGroup& g) { return g.matches(spec); });
  if (group != options.groups.end())
    return {group->weight_decay.value_or(usual), group->lr_scale, static_cast<int>(group - options.groups.begin())};
  if (!options.groups.empty() && spec.trainable)
    throw ConfigError("groups", spec.name, "no parameter group matches this parameter",
                      "end the list with a group that matches everything");
  return {.weight_decay = usual};
}

AttachOptions with_equal_ranges(AttachOptions options) {
  options.shards = Cut::kRange;
  options.shard_weights.clear();
  return options;
}

bool is_hidden_matrix(const ParamSpec& spec) {
  if (spec.shape.size() < 2 || spec.own_unit) return false;
  const std::size_t end = spec.name.rfind('.');
  if (end == std::string::npos) return true;
  const std::string_view module = std::string_view(spec.name).substr(0, end);
  constexpr std::array<std::string_view, 4> kHeads{"lm_head", "head", "classifier", "score"};
  return std::ranges::find(kHeads, module.substr(module.rfind('.') + 1)) == kHeads.end();  // npos + 1 is 0
}

namespace {

std::int64_t* bytes_of(MemoryBudget& budget) {
  return budget.kind == MemoryBudget::Kind::kBytes ? &budget.bytes : nullptr;
}

// A user's own rule has no row.
RuleNeeds needs_of(const OptimizerOptions& options) {
  if (const RuleRow* const row = row_of(options)) return row->needs;
  const UpdateRule* const own = std::get<OwnRuleOptions>(options).rule.get();
  return own == nullptr ? RuleNeeds::kElements : needs_of(*own);
}

}  // namespace

bool OffloadOptions::has_room_on(Tier tier) const {
  switch (tier) {
    case Tier::kDevice:
      return true;
    case Tier::kHost:
      return host_memory.kind == MemoryBudget::Kind::kBytes;
    case Tier::kDisk:
      return !disk.empty();
  }
  return false;
}

std::int64_t* budget_bytes(AttachOptions& options, Tier tier) {
  std::int64_t& disk = options.offload.disk_memory;
  switch (tier) {
    case Tier::kDevice:
      return bytes_of(options.device_memory);
    case Tier::kHost:
      return bytes_of(options.offload.host_memory);
    case Tier::kDisk:
      return disk > 0 ? &disk : nullptr;
  }
  return nullptr;
}

const std::int64_t* budget_bytes(const AttachOptions& options, Tier tier) {
  return budget_bytes(const_cast<AttachOptions&>(options), tier);
}

bool OffloadOptions::has_lower_room() const {
  return std::ranges::any_of(kLowerTiers, [this](Tier tier) { return has_room_on(tier); });
}

MatrixChoice matrices_of(const AttachOptions& options) {
  const RuleNeeds needs = needs_of(options.optimizer);
  if (needs == RuleNeeds::kRowsAndColumns)
    return {.is_matrix = [](const ParamSpec& spec) { return spec.shape.size() >= 2; }, .factored = true};
  if (needs != RuleNeeds::kMatrices) return {};
  return {.is_matrix = [groups = options.groups](const ParamSpec& spec) {
    if (spec.shape.size() < 2) return false;
    const auto group = std::ranges::find_if(groups, [&](const ParameterGroup& g) { return g.matches(spec); });
    const bool says = group != groups.end() && group->muon.has_value();
    return says ? *group->muon : is_hidden_matrix(spec);
  }};
}

std::unique_ptr<UpdateRule> rule_of(const AttachOptions& options) {
  auto rule = make_update_rule(options.optimizer);
  if (options.local && options.ema != 0)
    throw ConfigError(
        "train.ema", fmt::format("{}", options.ema),
        "the outer step averages copies that train apart (sync.mode local)",
        "leave train.ema out: evaluations and saved weights use the merged weights; or use sync.mode sync");
  if (options.local) return with_outer_states(std::move(rule), *options.local, options.wire.outer_topk > 0);
  return options.ema == 0 ? std::move(rule) : with_average(std::move(rule), options.ema);
}

namespace {

bool all_on_one_tier(const TierFractions& fractions) {
  return fractions.on_device() || std::ranges::any_of(kLowerTiers, [&](Tier tier) { return fractions[tier] == 1; });
}

// Returns the reason why a weighted cut cannot have these options, and a remedy; empty: it can. Every rank must gather
// and release the same units at the same time, although their shards differ.
std::pair<std::string_view, std::string_view> weighted_obstacle(const AttachOptions& options) {
  const OffloadOptions& offload = options.offload;
  const StateFractions& at = offload.fractions;
  if (!all_on_one_tier(at.parameter) || !all_on_one_tier(at.gradient) || !all_on_one_tier(at.optimizer))
    return {"a part of each shard off the device would cut units at different places on different ranks",
            "put each state on one tier, for example zero.optimizer = {host = 1}; or use range"};
  if (offload.has_lower_room() && at.on_device() && offload.automatic)
    return {"one rank decides for all ranks which states leave the device, so shards must be equal",
            "set what leaves the device, for example zero.optimizer = {host = 1}; or set zero.placement device to keep "
            "all there; or use range"};
  if (options.wire.gather != WireCodec::kNone || options.wire.reduce != WireCodec::kNone || options.wire.outer_topk > 0)
    return {"codecs (comm.gather_wire, comm.reduce_wire, outer_wire = \"topk\") send equal blocks",
            "leave the codec out, or use range"};
  return {};
}

// Throws ConfigError if the options forbid the cut, with a remedy.
void require_cut(const AttachOptions& options, const UpdateRule& rule) {
  const auto refuse = [&](std::string_view reason, std::string_view remedy) {
    throw ConfigError("zero.shards", name_of(options.shards), reason, remedy);
  };
  if (options.shards != Cut::kWeighted && !options.shard_weights.empty())
    throw ConfigError("zero.shard_weights", fmt::format("[{}]", weights_text(options.shard_weights)),
                      fmt::format("zero.shards = \"{}\" has no weights", name_of(options.shards)),
                      "leave it out, or set zero.shards = \"weighted\"");
  if (options.shards == Cut::kRange) return;
  if (options.shards == Cut::kWeighted) {
    if (const auto [reason, remedy] = weighted_obstacle(options); !reason.empty()) refuse(reason, remedy);
  }
  if (options.shards != Cut::kHash) return;
  if (options.stage < 3)
    refuse("scattered parameters need a gather, and only parameters in shards are gathered",
           "use zero.stage 3; or use range or whole, which every stage supports");
  if (rule.matrices() != nullptr)
    refuse(fmt::format("{} updates whole matrices, and this would cut them", name_of(options.optimizer)),
           "use range, or use whole, which gives each matrix to one rank");
}

// Sets the units' workspace for the rule's matrices.
void prepare_matrices(std::vector<Unit>& units, const UpdateRule& rule, const AttachOptions& options) {
  const MatrixRule& of_matrices = *rule.matrices();
  for (Unit& unit : units) {
    if (!unit.whole_matrices()) continue;
    for (const Slice& slice : unit.slices)
      unit.workspace_numel = std::max(unit.workspace_numel, of_matrices.workspace_numel({slice.rows, slice.columns()}));
  }
}

}  // namespace

void require_rule(const AttachOptions& options, const UpdateRule& rule) {
  const bool has_sums = rule.num_sums() > 0;
  if (options.delayed_update && has_sums) {
    throw ConfigError(
        "zero.delayed_update", "true",
        fmt::format("{} needs sums over whole parameters before it updates a parameter", name_of(options.optimizer)),
        "set zero.delayed_update = false, or use an optimizer that updates each element separately, such as adamw");
  }
  if (options.delayed_update && rule.matrices() != nullptr) {
    throw ConfigError(
        "zero.delayed_update", "true",
        fmt::format("{} needs the direction of a whole matrix before it updates a part of that matrix",
                    name_of(options.optimizer)),
        "set zero.delayed_update = false, or use an optimizer that updates each element separately, such as adamw");
  }
  if (options.local && rule.factors() != nullptr) {
    throw ConfigError("optimizer.name", std::string(name_of(options.optimizer)),
                      "with sync.mode local each copy would have its own states of rows and columns",
                      "use an optimizer without such states, for example adamw; or use sync.mode sync");
  }
  if (options.delayed_update && options.ema != 0) {
    throw ConfigError("zero.delayed_update", "true", "the average of the weights (train.ema) would also be a step late",
                      "use either zero.delayed_update or train.ema");
  }
  if (options.delayed_update && options.local) {
    throw ConfigError("zero.delayed_update", "true",
                      "an outer step (sync.mode local) would come between a gradient and its update",
                      "use either zero.delayed_update or sync.mode local");
  }
}

void require_matrix(const std::vector<ParamSpec>& specs, const AttachOptions& options) {
  const auto rule = rule_of(options);
  if (rule->matrices() == nullptr || !rule->matrices()->needs_a_matrix()) return;
  const MatrixChoice choice = matrices_of(options);
  const auto is_matrix = [&choice](const ParamSpec& spec) {  // one of one row or column is a vector
    return spec.trainable && choice(spec) && spec.shape.front() > 1 && spec.numel() > spec.shape.front();
  };
  if (std::ranges::any_of(specs, is_matrix)) return;
  if (const RuleRow* const row = row_of(options.optimizer))
    throw ConfigError(
        "optimizer.name", row->name,
        fmt::format("the model has no hidden matrix for this rule, and {} would update everything", row->others),
        fmt::format("use {}, or a model with hidden layers, or a group with rule = \"{}\"", row->others, row->name));
  throw ConfigError("optimizer.rule", rule->name(), "the model has no hidden matrix for this rule to update as a whole",
                    "use another rule, or a model with hidden layers, or a ParameterGroup with muon = true");
}

namespace {

// Returns for example "lm_head.weight is tied to wte.weight", if the group matches a parameter only by such a second
// name; otherwise "".
std::string tied_member(const ParameterGroup& group, const std::vector<ParamSpec>& specs) {
  for (const ParamSpec& spec : specs) {
    for (const std::string& alias : spec.aliases) {
      ParamSpec renamed = spec;
      renamed.name = alias;
      if (group.matches(renamed)) return fmt::format("{} is tied to {}", alias, spec.name);
    }
  }
  return "";
}

}  // namespace

void require_members(const std::vector<ParamSpec>& specs, const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& named : groups) {
    if (named.name.empty()) continue;
    const bool takes = std::ranges::any_of(groups, [&](const ParameterGroup& group) {
      return group.name == named.name && std::ranges::any_of(specs, group.matches);
    });
    if (takes) continue;
    const std::string tied = tied_member(named, specs);
    if (!tied.empty()) throw ConfigError("optimizer.group", named.name, tied, "name the parameter that it is tied to");
    throw ConfigError("optimizer.group", named.name, "no parameter of the model has such a name",
                      fmt::format("names are such as {}", specs.empty() ? "" : specs.front().name));
  }
  const auto is_matrix = [](const ParamSpec& spec) { return spec.shape.size() >= 2; };
  for (const ParameterGroup& group : groups) {
    if (group.muon != true || group.name.empty()) continue;
    const bool has_matrix =
        std::ranges::any_of(specs, [&](const ParamSpec& spec) { return is_matrix(spec) && group.matches(spec); });
    if (!has_matrix)
      throw ConfigError("optimizer.group", group.name,
                        "rule = \"muon\" needs matrices, and these parameters include no matrix",
                        "leave the rule out, or name parameters with two or more dimensions");
  }
}

std::vector<Unit> units_of(const std::vector<ParamSpec>& specs, int world, const AttachOptions& options) {
  const auto rule = rule_of(options);
  require_rule(options, *rule);
  require_cut(options, *rule);
  std::vector<Unit> units =
      make_units(specs, options.units, spec_of(*rule).grain(), matrices_of(options), options.align_bytes);
  if (rule->matrices() != nullptr) prepare_matrices(units, *rule, options);
  if (options.local) require_fragments(units, *options.local);
  if (options.shards == Cut::kRange) return units;
  const int owners = mesh_of(world, options).shard;
  if (options.shards != Cut::kWeighted) return cut_units(std::move(units), options.shards, owners);
  std::vector<double> weights = options.shard_weights;
  if (weights.empty()) weights.assign(static_cast<std::size_t>(owners), 1.0);
  require_weights(weights, owners, "zero.shard_weights", options.sync.has_servers() ? "server" : "rank");
  const auto largest = static_cast<int>(std::ranges::max_element(weights) - weights.begin());
  return weighted_units(std::move(units), weights, largest);
}

Mesh mesh_of(int world, const AttachOptions& options) {
  return options.local ? mesh_of_local(world, options.group) : mesh_of(world, options.group);
}

void set_exchange(Placement& placement, const Mesh& mesh, const AttachOptions& options) {
  (options.local ? placement.merged_copies : placement.copies) = mesh.copies;
  if (options.local) {
    placement.outer_fragments = options.local->fragments;
    placement.outer_overlap = options.local->overlap > 0;
  }
  placement.secondary_group = placement.parameter_sharded ? options.secondary_group : 0;
  placement.wire = options.wire;
  if (!placement.parameter_sharded) placement.wire.gather = WireCodec::kNone;
}

namespace {

void require_topk(const AttachOptions& options) {
  const double share = options.wire.outer_topk;
  const auto require = [&](bool valid, std::string_view reason, std::string_view remedy) {
    if (!valid) throw ConfigError("comm.outer_topk", fmt::format("{}", share), reason, remedy);
  };
  require_number("comm.outer_topk", share, {.least = 0, .most = 1}, "use for example 0.01, or 0 for all elements");
  require(share == 0 || options.local.has_value(), "only sync.mode local has an outer step",
          "leave it out, or use sync.mode local");
  require(share == 0 || options.wire.outer == WireCodec::kNone,
          fmt::format("comm.outer_wire codes outer steps as {} already", name_of(options.wire.outer)),
          "set only one of the two: a codec or a share of elements");
}

}  // namespace

void require_secondary(const AttachOptions& options, int world) {
  const int group = options.secondary_group;
  if (group == 0) return;
  const auto refuse_if = [group](bool broken, std::string_view reason, std::string_view remedy) {
    if (broken) throw ConfigError("zero.secondary_group", fmt::format("{}", group), reason, remedy);
  };
  refuse_if(options.stage != 3, fmt::format("at stage {} every rank holds whole weights already", options.stage),
            "use zero.stage 3, which gathers them; or leave it out");
  refuse_if(options.sync.has_servers(), "workers read weights from servers and do not gather",
            "leave it out, or use no servers (sync.servers)");
  refuse_if(options.local.has_value(),
            "copies that train apart (sync.mode local) keep no secondary parts of their weights",
            "leave it out, or use sync.mode sync");
  refuse_if(options.shards == Cut::kWeighted, "secondary parts need contiguous shards of one size",
            "leave it out, or use zero.shards range");
  refuse_if(group == 1, "each rank would keep whole weights, and stage 2 does that without a second gather",
            "use zero.stage 2, or 2 or more ranks");
  require_secondary_group(mesh_of(world, options).shard, group);
}

bool host_updates(const Device& device, const AttachOptions& options) {
  return !device.host_readable() && std::holds_alternative<OwnRuleOptions>(options.optimizer);
}

void require_wire(const AttachOptions& options, int world) {
  const auto refuse = [](std::string_view key, WireCodec codec, std::string_view reason, std::string_view remedy) {
    if (codec != WireCodec::kNone) throw ConfigError(key, std::string(name_of(codec)), reason, remedy);
  };
  const WireCodecs& wire = options.wire;
  if (options.sync.has_servers()) {
    const std::string reason = "servers and workers exchange gradients and weights without a codec";
    refuse("comm.gather_wire", wire.gather, reason, "leave it out, or use no servers (sync.servers)");
    refuse("comm.reduce_wire", wire.reduce, reason, "leave it out, or use no servers (sync.servers)");
  }
  if (options.stage != 3)
    refuse("comm.gather_wire", wire.gather,
           fmt::format("at stage {} a codec would round the parameters that a rank keeps", options.stage),
           "use zero.stage 3, which keeps each rank's shard exact; or leave it out");
  if (options.group == 1 || (options.local && options.group == 0)) {
    const std::string reason = "each rank holds a whole copy of the model, so ranks gather nothing within a copy";
    refuse("comm.gather_wire", wire.gather, reason, "leave it out, or set zero.group to 2 or more");
    refuse("comm.reduce_wire", wire.reduce, reason, "leave it out, or set zero.group to 2 or more");
  }
  if (!options.local && mesh_of(world, options).copies == 1)
    refuse("comm.outer_wire", wire.outer, "the ranks hold one copy of the model, so no copies exchange gradients",
           "leave it out, or set zero.group to fewer ranks, or use sync.mode local");
  require_topk(options);
}

}  // namespace zero
