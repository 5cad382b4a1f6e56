#include "zero/engine/place/stage_cost.h"

#include <string>

#include "zero/base/error/error.h"
#include "zero/optim/rule/update_rule.h"
#include "zero/plan/units/factored.h"
#include "zero/plan/units/partition.h"

namespace zero {

bool keeps_fp32_sums(const AttachOptions& options) {
  if (!options.reduce_dtype) return false;
  if (*options.reduce_dtype != DType::kFloat32)
    throw ConfigError("reduce_dtype", std::string(name_of(*options.reduce_dtype)),
                      "gradients are summed in fp32 or in the type of the parameters",
                      "set reduce_dtype to fp32, or leave it out");
  if (options.accumulate > 1 && options.reduce == Reduce::kLast && options.leaves == 0)
    throw ConfigError("reduce_dtype", "fp32",
                      "with reduce = \"last\" a rank sends its sum of micro-batches in the type of parameters",
                      "use reduce = \"each\", or leave reduce_dtype out");
  return true;
}

Placement placement_at(const AttachOptions& options, const Mesh& mesh, int stage) {
  Placement placement =
      place(stage, options.reduce, options.accumulate, options.delayed_update && stage == options.stage);
  placement.fp32_sums = keeps_fp32_sums(options);
  set_exchange(placement, mesh, options);
  placement.sums = options.sums;
  placement.leaves = options.leaves;
  return placement;
}

StageCost cost_of(const std::vector<Unit>& units, const Mesh& mesh, const AttachOptions& options,
                  const Placement& placement, int stage) {
  const OptimizerSpec spec = spec_of(*rule_of(options));
  StageCost cost{.state = state_bytes(units, mesh.shard, placement, spec),
                 .sent_between_copies = sent_between_copies(units, mesh, placement)};
  cost.sent = sent_bytes(units, mesh.shard, placement) + cost.sent_between_copies;
  if (options.local) cost.outer = outer_bytes(units, mesh, placement);
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    const std::int64_t numel = used_numel(unit);
    if (options.local) cost.outer_formula += outer_formula_bytes(numel, mesh, placement.wire);
    cost.state_formula += state_formula_bytes(numel, mesh.shard, stage, unit.dtype, spec, unit.matrices()) +
                          static_cast<double>(factor_bytes(unit, spec));
    cost.sent_formula += sent_formula_bytes(numel, mesh.shard, placement, unit.dtype);
    cost.sent_between_copies_formula += sent_between_copies_formula_bytes(numel, mesh.shard, placement);
    cost.sent_formula += update_sent_formula_bytes(unit, mesh.shard, placement);
  }
  cost.sent_formula += cost.sent_between_copies_formula;
  return cost;
}

}  // namespace zero
