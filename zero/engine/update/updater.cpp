#include "zero/engine/update/updater.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/process/clock.h"
#include "zero/plan/units/factored.h"

namespace zero {
namespace {

// Empty unless the host cannot read the device, and the rule needs sums.
std::optional<DeviceSums> device_sums_of(const ShardedState& state, const UpdateRule& rule, std::size_t num_params,
                                         Ledger& ledger) {
  const std::size_t most_sums = num_params * static_cast<std::size_t>(rule.num_sums());
  std::optional<DeviceSums> sums;
  if (state.device().host_readable() || most_sums == 0) return sums;
  std::size_t most_factors = 0;
  for (const Unit& unit : state.units())
    most_factors = std::max(most_factors, static_cast<std::size_t>(factor_numel(unit)));
  sums.emplace(state.device(), ledger, std::max(most_sums, most_factors), most_factors);
  return sums;
}

template <typename T>
T* address_of(std::optional<T>& value) {
  return value ? &*value : nullptr;
}

}  // namespace

// Stops pump_tile() while it lives, because a pass is being changed.
class Updater::AtWork {
 public:
  explicit AtWork(Updater& updater) : updater_(updater) { ++updater_.at_work_; }
  ~AtWork() { --updater_.at_work_; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  Updater& updater_;
};

Updater::Updater(ShardedState& state, const UpdateRule& rule, const std::vector<ParamSpec>& specs,
                 const AttachOptions& options, Communicator& comm, Ledger& ledger, Communicator& direction_comm)
    : state_(state),
      rule_(rule),
      timeline_(options.timeline),
      values_(state.units(), specs, options, rule.num_sums()),
      tiles_(state, values_, needs_of(rule), options, ledger),
      device_sums_(device_sums_of(state, rule, specs.size(), ledger)),
      sums_(rule, state, values_, tiles_, comm, address_of(device_sums_)),
      factors_(rule, state, values_, tiles_, comm, ledger, address_of(device_sums_)),
      matrices_(rule, state, values_, tiles_, comm, direction_comm, ledger, options),
      pass_(rule, kRuleUpdate, state, values_, tiles_, options.timeline) {
  for (const Unit& unit : state.units()) {
    ZERO_CHECK(!unit.whole_matrices() || rule.matrices() != nullptr, "{} has no rule for {}", rule.name(), unit.name);
    ZERO_CHECK(!unit.factored || rule.factors() != nullptr, "{} has no rule for {}", rule.name(), unit.name);
  }
}

void Updater::begin_step(const std::vector<bool>& present, std::span<const int> units, double scale,
                         const StepRates& rates) {
  const AtWork at_work(*this);
  finish();
  const double start = monotonic_seconds();
  values_.begin_step(present, scale, rates);
  pass_ = RulePass(rule_, kRuleUpdate, state_, values_, tiles_, timeline_);
  begin_units(units);
  state_.factors().take_up();
  if (device_sums_) follow(state_.device(), Lane::kUpdate, Lane::kUp);
  factors_.run(units);
  if (rule_.num_sums() > 0) sums_.run(ranges_of(units));
  if (std::ranges::find(matrices_due_, true) == matrices_due_.end()) {
    begin_pass({units.begin(), units.end()});
  } else {  // whole matrices would stop reading ahead
    order_.assign(units.begin(), units.end());
    paused_ = true;
  }
  seconds_ += monotonic_seconds() - start;
}

void Updater::begin_rule(const UpdateRule& rule, std::span<const int> units) {
  const AtWork at_work(*this);
  finish();
  const double start = monotonic_seconds();
  pass_ = RulePass(rule, kOtherRule, state_, values_, tiles_, timeline_);
  std::vector<bool> present;
  for (const std::int64_t steps : values_.steps()) present.push_back(steps > 0 || state_.placement().merged_copies > 1);
  values_.set_present(std::move(present));
  begin_units(units);
  begin_pass({units.begin(), units.end()});
  seconds_ += monotonic_seconds() - start;
}

// A unit without any gradient is not even read.
void Updater::begin_units(std::span<const int> units) {
  gradients_.assign(state_.units().size(), {});
  outstanding_.assign(state_.units().size(), false);
  matrices_due_.assign(state_.units().size(), false);
  for (const int unit : units) {
    const bool due = values_.any_present(state_.unit(unit)) && state_.update_range(unit).numel > 0;
    (whole_matrices(unit) ? matrices_due_ : outstanding_)[static_cast<std::size_t>(unit)] = due;
  }
}

std::vector<TileRange> Updater::ranges_of(std::span<const int> units) const {
  std::vector<TileRange> ranges;
  for (const int unit : units)
    ranges.push_back({unit, outstanding_[static_cast<std::size_t>(unit)] ? state_.update_range(unit).numel : 0});
  return ranges;
}

void Updater::begin_pass(std::vector<int> units) {
  tiles_.begin(pass_.states(), ranges_of(units));
  order_ = std::move(units);
  paused_ = false;
}

void Updater::reorder(std::span<const int> units) {
  const AtWork at_work(*this);
  if (outstanding_.empty()) return;
  const double start = monotonic_seconds();
  TileStream& pass = state_.streams().update_pass();
  while (pass.next_begin() > 0) update_tile(*pass.next());
  begin_pass({units.begin(), units.end()});
  seconds_ += monotonic_seconds() - start;
}

void Updater::enqueue(int unit, const std::byte* gradient, DType dtype) {
  const AtWork at_work(*this);
  const auto index = static_cast<std::size_t>(unit);
  gradients_[index] = {.gradient = {gradient, dtype}, .given = true};
  follow(state_.device(), Lane::kUpdate, Lane::kUp);
  if (!state_.placement().parameter_sharded) follow(state_.device(), Lane::kUpdate, Lane::kCompute);
  if (matrices_due_[index]) {
    matrices_due_[index] = false;
    run_alone([&] { matrices_.update(unit, gradients_[index].gradient); });
    return;
  }
  if (paused_) begin_pass(std::move(order_));
}

void Updater::run_alone(const std::function<void()>& run) {
  const AtWork at_work(*this);
  finish();
  const double start = monotonic_seconds();
  run();
  seconds_ += monotonic_seconds() - start;
}

bool Updater::current(int unit) {
  if (outstanding_.empty() || !given(unit)) return true;
  return !outstanding_[static_cast<std::size_t>(unit)] &&
         (!state_.streams().moves_parameters() || state_.streams().update_pass().settled(unit));
}

void Updater::complete(int unit) {
  const AtWork at_work(*this);
  if (current(unit)) return;
  const double start = monotonic_seconds();
  TileStream& pass = state_.streams().update_pass();
  while (outstanding_[static_cast<std::size_t>(unit)]) {
    const Tile* tile = pass.next();
    ZERO_CHECK(tile != nullptr, "the update of unit {} was lost", unit);
    update_tile(*tile);
  }
  if (state_.streams().moves_parameters()) pass.flush(unit);
  seconds_ += monotonic_seconds() - start;
}

std::int64_t Updater::complete_into(int unit, std::byte* into) {
  const AtWork at_work(*this);
  const std::int64_t numel = state_.update_range(unit).numel;
  if (current(unit)) return numel;
  const double start = monotonic_seconds();
  TileStream& pass = state_.streams().update_pass();
  while (outstanding_[static_cast<std::size_t>(unit)] && pass.next_unit() != unit) {
    ZERO_CHECK(pass.next_unit() >= 0, "the update of unit {} was lost", unit);
    update_tile(*pass.next());
  }
  const std::int64_t settled = pass.copy_unsettled(unit, static_cast<std::size_t>(tiles_.parameter()), into);
  while (outstanding_[static_cast<std::size_t>(unit)]) update_tile(*pass.next(), into);
  seconds_ += monotonic_seconds() - start;
  return settled;
}

void Updater::pump() {
  TileStream& pass = state_.streams().update_pass();
  if (!pass.ready()) return;
  const AtWork at_work(*this);
  const double start = monotonic_seconds();
  bool queues_on = true;
  while (queues_on && pass.ready() && given(pass.next_unit())) {
    const Tile& tile = *pass.next();
    queues_on = state_.device().host_readable() || !tile.on_host;
    update_tile(tile);
  }
  seconds_ += monotonic_seconds() - start;
}

bool Updater::pump_tile() {
  TileStream& pass = state_.streams().update_pass();
  if (at_work_ > 0 || !pass.ready() || !given(pass.next_unit())) return false;
  const AtWork at_work(*this);
  const double start = monotonic_seconds();
  update_tile(*pass.next());
  const double seconds = monotonic_seconds() - start;
  seconds_ += seconds;
  meanwhile_seconds_ += seconds;
  return true;
}

void Updater::finish() {
  const AtWork at_work(*this);
  const double start = monotonic_seconds();
  TileStream& pass = state_.streams().update_pass();
  while (given(pass.next_unit())) update_tile(*pass.next());
  paused_ = paused_ || pass.next_unit() >= 0;
  pass.finish();
  const Placement& placement = state_.placement();
  const bool gathered = placement.parameter_sharded || placement.optimizer_sharded;
  if (tiles_.take_queued() && !gathered) follow(state_.device(), Lane::kCompute, Lane::kUpdate);
  seconds_ += monotonic_seconds() - start;
}

void Updater::update_tile(const Tile& tile, std::byte* copy_to) {
  const auto index = static_cast<std::size_t>(tile.unit);
  ZERO_CHECK(gradients_[index].given, "the update of {} came before its gradient", state_.unit(tile.unit).name);
  const int done = tile.unit;
  pass_.update(tile, gradients_[index].gradient, copy_to);
  TileStream& pass = state_.streams().update_pass();
  pass.put_back();
  if (pass.next_unit() != done) outstanding_[index] = false;
}

}  // namespace zero
