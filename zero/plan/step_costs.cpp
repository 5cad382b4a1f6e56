#include "zero/plan/step_costs.h"

#include <algorithm>

#include "zero/base/check.h"

namespace zero {
namespace {

// How often a pass brings the parameters of `unit`.
int gathers(const std::vector<int>& by_unit, const StepModel& model, const Unit& unit) {
  if (by_unit.empty()) return model.placement.accumulate;
  const auto index = static_cast<std::size_t>(unit.index);
  ZERO_CHECK(index < by_unit.size(), "no gathers of unit {} in the profile", unit.index);
  return by_unit[index];
}

// Adds up what one element costs. Bytes may be 0, and so may rates: then nothing is added.
class CostSheet {
 public:
  explicit CostSheet(const TierRates& rates) : rates_(rates) {}

  void add(Amount amount, StepPhase phase, Resource resource, double what, double rate) {
    if (rate <= 0) return;
    costs_[index_of(amount)][static_cast<std::size_t>(phase)][static_cast<std::size_t>(resource)] += what / rate;
  }
  void up(Amount amount, StepPhase phase, std::int64_t bytes) {
    add(amount, phase, Resource::kLinkUp, static_cast<double>(bytes), rates_.link_up);
  }
  void down(Amount amount, StepPhase phase, std::int64_t bytes) {
    add(amount, phase, Resource::kLinkDown, static_cast<double>(bytes), rates_.link_down);
  }
  void read(Amount amount, StepPhase phase, std::int64_t bytes) {
    add(amount, phase, Resource::kDisk, static_cast<double>(bytes), rates_.disk_read);
  }
  void write(Amount amount, StepPhase phase, std::int64_t bytes) {
    add(amount, phase, Resource::kDisk, static_cast<double>(bytes), rates_.disk_write);
  }
  const StepCosts& costs() const { return costs_; }

 private:
  TierRates rates_;
  StepCosts costs_{};
};

void add_fetches(CostSheet& sheet, StepPhase phase, std::int64_t bytes) {
  for (const Amount held : {Amount::kParameterHost, Amount::kParameterDisk}) sheet.up(held, phase, bytes);
  sheet.read(Amount::kParameterDisk, phase, bytes);
}

// Every reduction but the first goes on from the sum so far, which is brought for that.
void add_spills(CostSheet& sheet, int reductions, std::int64_t bytes) {
  for (const Amount held : {Amount::kGradientHost, Amount::kGradientDisk}) {
    sheet.down(held, StepPhase::kBackward, reductions * bytes);
    sheet.up(held, StepPhase::kBackward, (reductions - 1) * bytes);
  }
  sheet.write(Amount::kGradientDisk, StepPhase::kBackward, reductions * bytes);
  sheet.read(Amount::kGradientDisk, StepPhase::kBackward, (reductions - 1) * bytes);
}

void add_update(CostSheet& sheet, const ElementBytes& bytes, bool own_master, bool rounds_gradient) {
  constexpr auto kUpdate = StepPhase::kUpdate;
  sheet.read(Amount::kOptimizerDisk, kUpdate, bytes.optimizer);
  sheet.write(Amount::kOptimizerDisk, kUpdate, bytes.optimizer);
  // The update writes parameters, and reads those that are their own master.
  const std::int64_t read = own_master ? bytes.parameter : 0;
  sheet.read(Amount::kParameterDisk, kUpdate, read);
  sheet.write(Amount::kParameterDisk, kUpdate, bytes.parameter);
  sheet.down(Amount::kParameterAbove, kUpdate, read);
  sheet.up(Amount::kParameterAbove, kUpdate, bytes.parameter);
  sheet.up(Amount::kParameterBelow, kUpdate, read);
  sheet.down(Amount::kParameterBelow, kUpdate, bytes.parameter);
  sheet.read(Amount::kGradientDisk, kUpdate, bytes.gradient);
  if (rounds_gradient) {  // the fp32 sum of bf16 gradients, in a pass of its own before the norm is known
    sheet.read(Amount::kGradientDisk, kUpdate, bytes.gradient);
    sheet.write(Amount::kGradientDisk, kUpdate, bytes.gradient);
  }
  sheet.down(Amount::kGradientAbove, kUpdate, bytes.gradient);
  sheet.up(Amount::kGradientBelow, kUpdate, bytes.gradient);
}

void add_arithmetic(CostSheet& sheet, const TierRates& rates) {
  constexpr auto kUpdate = StepPhase::kUpdate;
  if (rates.device_update_numel <= 0) {  // the same cores, wherever the moments lie
    sheet.add(Amount::kUpdated, kUpdate, Resource::kUpdate, 1, rates.update_numel);
    return;
  }
  sheet.add(Amount::kUpdated, kUpdate, Resource::kCompute, 1, rates.device_update_numel);
  for (const Amount off_device : {Amount::kOptimizerHost, Amount::kOptimizerDisk}) {
    sheet.add(off_device, kUpdate, Resource::kCompute, -1, rates.device_update_numel);
    sheet.add(off_device, kUpdate, Resource::kUpdate, 1, rates.update_numel);
  }
}

}  // namespace

ElementBytes element_bytes(const StepModel& model, const Unit& unit) {
  const auto size = static_cast<std::int64_t>(size_of(unit.dtype));
  if (!unit.trainable) return {.parameter = size};
  const int arrays = model.num_moments + (unit.dtype == DType::kFloat32 ? 0 : 1);
  const std::int64_t gradient = model.placement.fp32_gradient() ? 4 : size;
  return {.parameter = size, .gradient = model.placement.num_gradients() * gradient, .optimizer = 4 * arrays};
}

StepCosts costs_of(const StepModel& model, const Unit& unit) {
  const Placement& placement = model.placement;
  ElementBytes bytes = element_bytes(model, unit);
  bytes.gradient /= placement.num_gradients();  // of what is held, one moves
  CostSheet sheet(model.rates);
  if (placement.parameter_sharded) {
    add_fetches(sheet, StepPhase::kForward, gathers(model.profile.forward_gathers, model, unit) * bytes.parameter);
    add_fetches(sheet, StepPhase::kBackward, gathers(model.profile.backward_gathers, model, unit) * bytes.parameter);
  }
  if (!unit.trainable) return sheet.costs();
  const bool own_master = unit.dtype == DType::kFloat32;
  if (placement.gradient_sharded) add_spills(sheet, placement.accumulate, bytes.gradient);
  add_update(sheet, bytes, own_master, placement.fp32_gradient() && !own_master);
  add_arithmetic(sheet, model.rates);
  return sheet.costs();
}

Amounts amounts_of(const StepModel& model, const Unit& unit, const UnitTiers& tiers) {
  Amounts amounts{};
  const auto set = [&](Amount amount, std::int64_t numel) {
    amounts[index_of(amount)] = static_cast<double>(std::max<std::int64_t>(numel, 0));
  };
  set(Amount::kParameterHost, tiers.parameter.host);
  set(Amount::kParameterDisk, tiers.parameter.disk);
  if (!unit.trainable) return amounts;
  set(Amount::kGradientHost, tiers.gradient.host);
  set(Amount::kGradientDisk, tiers.gradient.disk);
  set(Amount::kOptimizerHost, tiers.optimizer.host);
  set(Amount::kOptimizerDisk, tiers.optimizer.disk);
  set(Amount::kUpdated, tiers.optimizer.numel());
  // Every state begins on the device, so that one boundary in the updated range says all. What is whole never leaves.
  const std::int64_t updated = tiers.optimizer.numel();
  const std::int64_t parameter = model.placement.parameter_sharded ? tiers.parameter.device : updated;
  const std::int64_t gradient = model.placement.gradient_sharded ? tiers.gradient.device : updated;
  set(Amount::kGradientAbove, gradient - tiers.optimizer.device);
  set(Amount::kGradientBelow, tiers.optimizer.device - gradient);
  set(Amount::kParameterAbove, parameter - tiers.optimizer.device);
  set(Amount::kParameterBelow, tiers.optimizer.device - parameter);
  return amounts;
}

}  // namespace zero
