#include <cmath>

#include <nlohmann/json.hpp>

#include "zero/plan/schedule/schedule.h"
#include "zero/plan/units/partition.h"

#include "app/report/plan/plan_table.h"
#include "app/report/plan/served_plan.h"
#include "app/report/plan/shards_plan.h"
#include "app/report/predicted_json.h"

namespace zero {
namespace {

using Json = nlohmann::ordered_json;

Json tier_json(const TierFit& fit) {
  return {{"needed_bytes", fit.needed},
          {"free_bytes", fit.free ? Json(*fit.free) : Json(nullptr)},
          {"lacking_bytes", fit.lacks}};
}

Json fit_json(const TrainingPlan& plan) {
  const MemoryFit fit = fit_of(plan);
  Json json{{"rank",
             {{"states_bytes", fit.rank.states},
              {"working_bytes", fit.rank.working},
              {"activation_bytes", fit.rank.activations},
              {"total_bytes", fit.rank.total()}}},
            {"ranks_of_a_machine", plan.machine->ranks},
            {"needed_bytes", fit.needed},
            {"free_bytes", fit.is_known ? Json(fit.free) : Json(nullptr)},
            {"fits", fit.is_known ? Json(fit.fits()) : Json(nullptr)},
            {"lacking_bytes", fit.lacks}};
  for (const Tier tier : kLowerTiers)
    if (!is_memory(tier)) json[std::string(name_of(tier))] = tier_json(fit.lower[tier]);
  json["would_fit"] = Json::array();
  if (plan.machine->ranks_on_gpu > 0) {
    json["gpu"] = plan.machine->gpu;
    json["activations_of"] = plan.machine->activations_of;
    json["activations_learned"] = plan.machine->learned_bytes > 0;
    for (const Tier tier : kLowerTiers)
      if (is_memory(tier)) json[std::string(name_of(tier))] = tier_json(fit.lower[tier]);
  }
  if (!plan.refused.empty()) json["refused"] = plan.refused;
  if (fit.fits()) return json;
  for (const WayToFit& way : ways_to_fit(plan))
    json["would_fit"].push_back({{"change", way.change}, {"needed_bytes", way.needed}, {"disk_bytes", way.disk}});
  return json;
}

Json shards_json(const TrainingPlan& plan) {
  const ShardsPlan shards = shards_plan(plan);
  Json json{{"cut", name_of(plan.options.shards)},
            {"smallest", {{"num_parameters", shards.smallest.numel}, {"state_bytes", shards.smallest.bytes}}},
            {"largest", {{"num_parameters", shards.largest.numel}, {"state_bytes", shards.largest.bytes}}},
            {"room_numel", shards.room}};
  for (const ShardsPlan::Owned& owned : shards.by_rank)
    json["by_rank"].push_back({{"num_parameters", owned.numel}, {"state_bytes", owned.bytes}});
  if (shards.moved_by_joining) json["moved_by_joining"] = *shards.moved_by_joining;
  if (shards.moved_by_leaving) json["moved_by_leaving"] = *shards.moved_by_leaving;
  return json;
}

Json prediction_json(const TrainingPlan& plan) {
  const Computation& computation = plan.computation;
  Json json = predicted_json(*plan.predicted);
  json["computation"] = {{"from", name_of(computation.from)}};
  if (computation.from == ComputationFrom::kEstimate) {
    json["computation"]["flops_per_step"] = computation.flops;
    json["computation"]["flops_per_second"] = computation.flops_per_second;
  }
  if (computation.crowd > 1) json["computation"]["ranks_to_a_core"] = computation.crowd;
  if (std::abs(computation.scale - 1) >= 1e-3) json["computation"]["scale"] = computation.scale;
  json["counts_communication"] = plan.world == 1;
  json["counts_disk"] = plan.without_disk.empty();
  return json;
}

}  // namespace

std::string plan_json(const TrainingPlan& plan, std::span<const int> stages) {
  const Mesh mesh = mesh_of(plan);
  Json json{{"model", plan.model},       {"num_parameters", num_parameters(plan.specs)},
            {"world", plan.world},       {"stage", plan.options.stage},
            {"shard_ranks", mesh.shard}, {"copies", mesh.copies},
            {"units", Json::array()},    {"stages", Json::array()}};
  if (const auto& local = plan.options.local) {
    json["local_steps"] = local->steps;
    json["fragments"] = local->fragments;
    json["overlap"] = local->overlap;
  }
  const WireCodecs& wire = plan.options.wire;
  if (wire != WireCodecs{})
    json["wire"] = {{"gather", name_of(wire.gather)}, {"reduce", name_of(wire.reduce)}, {"outer", name_of(wire.outer)}};
  if (plan.options.sums == RankSums::kLinked) json["sums"] = "nccl";
  if (wire.outer_topk > 0) json["wire"].update({{"outer", "topk"}, {"outer_topk", wire.outer_topk}});
  for (const Unit& unit : plan.units) {
    const std::int64_t whole = gathered_bytes(unit, mesh.shard);
    json["units"].push_back(
        {{"name", unit.name},
         {"num_parameters", num_parameters(unit)},
         {"dtype", name_of(unit.dtype)},
         {"trainable", unit.trainable},
         {"gathered_bytes", whole},
         {"shard_bytes", shard_numel(unit, mesh.shard) * static_cast<std::int64_t>(size_of(unit.dtype))}});
  }
  for (const int stage : stages) {
    const StageCost cost = cost_of(plan, stage);
    json["stages"].push_back({{"stage", stage},
                              {"memory_bytes",
                               {{"parameter", cost.state.parameter},
                                {"gradient", cost.state.gradient},
                                {"master", cost.state.master},
                                {"moment", cost.state.moment},
                                {"total", cost.state.total()}}},
                              {"sent_bytes", cost.sent},
                              {"received_bytes", cost.sent},
                              {"formula", {{"state_bytes", cost.state_formula}, {"sent_bytes", cost.sent_formula}}}});
    if (mesh.copies == 1) continue;
    json["stages"].back()["between_copies"] = {{"sent_bytes", cost.sent_between_copies},
                                               {"formula", {{"sent_bytes", cost.sent_between_copies_formula}}}};
    if (!plan.options.local) continue;
    json["stages"].back()["outer_step"] = {{"sent_bytes", cost.outer.total()},
                                           {"sent_between_copies", cost.outer.between_copies},
                                           {"formula", {{"sent_between_copies", cost.outer_formula}}}};
  }
  for (const Tier tier : kAllTiers) {
    const StateBytes s = state_bytes(plan.units, mesh.shard, placement_of(plan), optimizer_spec(plan), tier);
    json["tiers"][std::string(name_of(tier))] = {{"parameter", s.parameter},
                                                 {"gradient", s.gradient},
                                                 {"master", s.master},
                                                 {"moment", s.moment},
                                                 {"total", s.total()}};
  }
  if (plan.workers > 0) {
    const ServedPlan served = served_plan(plan);
    json["served"] = {{"mode", name_of(plan.options.sync.mode)},
                      {"servers", plan.world},
                      {"workers", plan.workers},
                      {"server_state_bytes", served.server.total()},
                      {"worker_state_bytes", served.worker.total()},
                      {"pushes_bytes", served.pushes},
                      {"versions_bytes", served.versions},
                      {"older_versions_bytes", served.older},
                      {"compensation_bytes", served.compensation},
                      {"pushed_bytes", served.pushed},
                      {"pulled_bytes", served.pulled},
                      {"worker_block_bytes", served.blocks}};
  }
  if (const auto cost = secondary_cost(plan))
    json["secondary"] = {{"ranks_of_each", plan.options.secondary_group},
                         {"kept_bytes", cost->kept},
                         {"sent_within_bytes", cost->sent_within},
                         {"sent_between_bytes", cost->sent_between},
                         {"formula", {{"sent_within_bytes", cost->sent_within_formula}}}};
  if (const auto passes = update_passes(plan)) {
    json["passes"] = {{"num_passes", passes->num_passes}, {"factors_first", passes->factors_first}};
    for (const Tier tier : kLowerTiers)
      json["passes"]["states_bytes_of_each"][std::string(name_of(tier))] = passes->bytes[tier];
  }
  json["shards"] = shards_json(plan);
  for (const Tier tier : kAllTiers)
    if (plan.beside && is_memory(tier)) json["beside_states_bytes"][std::string(name_of(tier))] = (*plan.beside)[tier];
  // The ranks of a machine hold different bytes if only some are servers.
  if (plan.machine && plan.workers == 0) json["memory"] = fit_json(plan);
  if (plan.predicted) json["predicted"] = prediction_json(plan);
  if (!plan.why_not_predicted.empty()) json["why_not_predicted"] = plan.why_not_predicted;
  return json.dump(1) + "\n";
}

}  // namespace zero
