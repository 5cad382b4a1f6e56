#include "zero/engine/update/updater.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/process/clock.h"
#include "zero/engine/update/updater_spans.h"
#include "zero/plan/units/factored.h"

namespace zero {
namespace {

static_assert(TileStream::kTileNumel % kCodeBlock == 0 && kBlockNumel % kCodeBlock == 0);

constexpr auto kUnchanged = [](auto& /*memory*/, const Tile& /*tile*/) {};

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
      comm_(comm),
      direction_comm_(direction_comm),
      ledger_(ledger),
      timeline_(options.timeline),
      lane_times_(state.device(), options.timeline),
      matrices_(specs.size()),
      steps_(specs.size(), 0),
      present_(specs.size(), false),
      host_tiles_([&device = state.device()](std::size_t bytes) { return device.allocate_pinned(bytes); }, ledger,
                  MemoryTag::kStaging, Tier::kHost, {}, state.device()),
      team_(options.threads) {
  for (const ParamSpec& spec : specs) {
    values_.push_back(values_of(options, spec));
    numels_.push_back(spec.numel());
  }
  std::size_t most_factors = 0;
  for (const Unit& unit : state.units()) {
    most_factors = std::max(most_factors, static_cast<std::size_t>(factor_numel(unit)));
    ZERO_CHECK(!unit.whole_matrices() || rule.matrices() != nullptr, "{} has no rule for {}", rule.name(), unit.name);
    ZERO_CHECK(!unit.factored || rule.factors() != nullptr, "{} has no rule for {}", rule.name(), unit.name);
    for (const Slice& slice : unit.slices)
      matrices_[static_cast<std::size_t>(slice.param)] = {slice.rows, slice.columns()};
  }
  const std::size_t most_sums = specs.size() * static_cast<std::size_t>(rule.num_sums());
  if (!state.device().host_readable() && most_sums > 0)
    device_sums_.emplace(state.device(), ledger, std::max(most_sums, most_factors), most_factors);
  hold_matrix_memory(options);
}

// A unit without any gradient is not even read.
bool Updater::updates(int unit) const {
  const auto& slices = state_.unit(unit).slices;
  return std::ranges::any_of(slices,
                             [this](const Slice& slice) { return present_[static_cast<std::size_t>(slice.param)]; });
}

void Updater::begin_step(const std::vector<bool>& present, std::span<const int> units, double scale,
                         const StepRates& rates) {
  const AtWork at_work(*this);
  finish();
  const double start = monotonic_seconds();
  scale_ = scale;
  rates_ = rates;
  present_ = present;
  for (std::size_t param = 0; param < present.size(); ++param) steps_[param] += present[param] ? 1 : 0;

  pass_rule_ = &rule_;
  begin_units(units);
  state_.factors().take_up();
  if (device_sums_) follow(state_.device(), Lane::kUpdate, Lane::kUp);
  if (rule_.factors() != nullptr) update_factors(units);
  if (rule_.num_sums() > 0) sum_parameters(units);
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
  pass_rule_ = &rule;
  for (std::size_t param = 0; param < steps_.size(); ++param)
    present_[param] = steps_[param] > 0 || state_.placement().merged_copies > 1;
  begin_units(units);
  begin_pass({units.begin(), units.end()});
  seconds_ += monotonic_seconds() - start;
}

void Updater::begin_units(std::span<const int> units) {
  gradients_.assign(state_.units().size(), {});
  outstanding_.assign(state_.units().size(), false);
  matrices_due_.assign(state_.units().size(), false);
  for (const int unit : units) {
    const bool due = updates(unit) && state_.update_range(unit).numel > 0;
    (whole_matrices(unit) ? matrices_due_ : outstanding_)[static_cast<std::size_t>(unit)] = due;
  }
}

bool Updater::reads_gradient(Pass pass) {
  return pass == Pass::kUpdate || pass == Pass::kSums || pass == Pass::kFactors || pass == Pass::kDirections;
}

bool Updater::reads_parameter(Pass pass) {
  return pass != Pass::kDirections && pass != Pass::kFactors && pass != Pass::kResiduals && pass != Pass::kAnchors;
}

// Another rule has the last of the optimizer's states. Directions need the first one, and steps along them the others.
// An outer step has its own states: a copy's residual, the momentum, and, as the last one, the anchor.
bool Updater::touches(Pass pass, std::size_t state) const {
  const auto& states = state_.arrays().optimizer;
  const bool outer = states[state].state.outer, last = state + 1 == states.size();
  const bool residual = outer && states[state].state.of_copy;
  switch (pass) {
    case Pass::kUpdate:
    case Pass::kSums:
      return !outer;
    case Pass::kFactors:
      return false;
    case Pass::kOtherRule:
      return last;
    case Pass::kDifferences:
      return last || residual;
    case Pass::kResiduals:
      return residual;
    case Pass::kDirections:
      return state == 0;
    case Pass::kSteps:
      return !outer && state > 0;
    case Pass::kMerge:
    case Pass::kAnchors:
      return outer && !residual;
  }
  return false;
}

std::vector<TileArray> Updater::pass_arrays(Pass pass) {
  const Placement& placement = state_.placement();
  const StateArrays& held = state_.arrays();
  const TileAccess access = writes(pass) ? TileAccess::kReadWrite : TileAccess::kRead;
  std::vector<TileArray> arrays;
  const auto add = [&arrays](const StateArray& array, TileAccess how) {
    arrays.push_back({&array, how});
    return static_cast<int>(arrays.size()) - 1;
  };
  slots_ = {};
  // Whole parameters are on the device, and the update covers a part of them.
  if (placement.parameter_sharded && reads_parameter(pass)) slots_.parameter = add(held.parameter, access);
  if (placement.gradient_sharded && reads_gradient(pass))
    slots_.gradient = add(state_.applied_gradient(), TileAccess::kRead);
  if (reads_parameter(pass)) slots_.master = add(held.master, access);
  for (const auto& [state, array, scales] : held.optimizer) {
    const bool wanted = touches(pass, slots_.optimizer.size());
    slots_.optimizer.push_back(wanted ? add(array, access) : -1);
    slots_.scales.push_back(wanted && state.coded() ? add(scales, access) : -1);
  }
  return arrays;
}

void Updater::begin_pass(std::vector<int> units) {
  std::vector<TileRange> ranges;
  for (const int unit : units)
    ranges.push_back({unit, outstanding_[static_cast<std::size_t>(unit)] ? state_.update_range(unit).numel : 0});
  const Pass pass = queue_pass();
  state_.streams().update_pass().begin(pass_arrays(pass), std::move(ranges), link_transfers(pass));
  order_ = std::move(units);
  paused_ = false;
}

// Returns the transfers of whole states: they are on the device, and the parts that the host updates cross the link
// both ways.
std::vector<LinkTransfer> Updater::link_transfers(Pass pass) const {
  const Placement& placement = state_.placement();
  LinkTransfer read{TileAccess::kRead, {}}, written{TileAccess::kWrite, {}}, gradient{TileAccess::kRead, {}};
  for (const Unit& unit : state_.units()) {
    const auto bytes = static_cast<std::int64_t>(size_of(unit.dtype));
    read.element_bytes.push_back(unit.dtype == DType::kFloat32 ? bytes : 0);  // other units have a master
    written.element_bytes.push_back(bytes);
    gradient.element_bytes.push_back(static_cast<std::int64_t>(size_of(state_.gradient_dtype(unit.index))));
  }
  std::vector<LinkTransfer> link_transfers;
  if (!placement.parameter_sharded && reads_parameter(pass)) {
    link_transfers.push_back(std::move(read));
    if (writes(pass)) link_transfers.push_back(std::move(written));
  }
  if (!placement.gradient_sharded && reads_gradient(pass)) link_transfers.push_back(std::move(gradient));
  return link_transfers;
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
  gradients_[index] = {gradient, dtype, true};
  follow(state_.device(), Lane::kUpdate, Lane::kUp);
  if (!state_.placement().parameter_sharded) follow(state_.device(), Lane::kUpdate, Lane::kCompute);
  if (matrices_due_[index]) {
    matrices_due_[index] = false;
    update_matrices(unit);
    return;
  }
  if (paused_) begin_pass(std::move(order_));
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
  const std::int64_t settled = pass.copy_unsettled(unit, static_cast<std::size_t>(slots_.parameter), into);
  while (outstanding_[static_cast<std::size_t>(unit)]) update_tile(*pass.next(), into);
  seconds_ += monotonic_seconds() - start;
  return settled;
}

double Updater::device_seconds() {
  lane_times_.read();
  return lane_times_.seconds(Activity::kUpdate);
}

// Bytes of the tile's parameters, in the unit's type.
std::int64_t Updater::bytes_of(const Tile& tile) const {
  return tile.numel * static_cast<std::int64_t>(size_of(state_.unit(tile.unit).dtype));
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
  if (std::exchange(queued_, false) && !gathered) follow(state_.device(), Lane::kCompute, Lane::kUpdate);
  seconds_ += monotonic_seconds() - start;
}

// Returns null unless parameters are whole on every rank.
std::byte* Updater::held_whole(int unit) const {
  return state_.placement().optimizer_sharded ? state_.parameter_shard(unit).data() : state_.whole_parameter(unit);
}

Updater::TileMemory Updater::memory_of(const Tile& tile, const std::byte* gradient, DType dtype) const {
  const DType unit_dtype = state_.unit(tile.unit).dtype;
  const auto in_tile = [&](int slot) { return slot < 0 ? nullptr : tile.data[static_cast<std::size_t>(slot)]; };
  const auto from_unit = [&](auto* data, DType type) {
    return data + tile.begin * static_cast<std::int64_t>(size_of(type));
  };
  TileMemory memory{.gradient_dtype = dtype, .held_dtype = unit_dtype};
  memory.held = in_tile(slots_.parameter);
  std::byte* const whole = memory.held == nullptr ? held_whole(tile.unit) : nullptr;
  if (whole != nullptr) memory.held = from_unit(whole, unit_dtype);
  if (slots_.gradient >= 0) {
    memory.gradient = in_tile(slots_.gradient);
  } else if (gradient != nullptr) {
    memory.gradient = from_unit(gradient, dtype);
  }
  memory.parameter = reinterpret_cast<float*>(unit_dtype == DType::kFloat32 ? memory.held : in_tile(slots_.master));
  for (std::size_t which = 0; which < slots_.optimizer.size(); ++which) {
    std::byte* values = in_tile(slots_.optimizer[which]);
    if (slots_.scales[which] < 0) {
      memory.states[which] = reinterpret_cast<float*>(values);
    } else {
      memory.coded[which] = {reinterpret_cast<std::uint8_t*>(values),
                             reinterpret_cast<float*>(in_tile(slots_.scales[which]))};
    }
  }
  return memory;
}

UpdateSpan Updater::TileMemory::span(std::int64_t begin, std::int64_t end) const {
  UpdateSpan span{.parameter = parameter == nullptr ? nullptr : parameter + begin,
                  .gradient_dtype = gradient_dtype,
                  .numel = end - begin};
  if (gradient != nullptr) span.gradient = gradient + begin * static_cast<std::int64_t>(size_of(gradient_dtype));
  for (std::size_t which = 0; which < states.size(); ++which) {
    if (states[which] != nullptr) span.states[which] = states[which] + begin;
    span.coded[which] = coded[which].from(begin);
  }
  if (held_dtype != DType::kFloat32 && held != nullptr) {
    span.low_precision = held + begin * static_cast<std::int64_t>(size_of(held_dtype));
    span.low_precision_dtype = held_dtype;
  }
  return span;
}

UpdateScalars Updater::scalars_of(std::size_t param, bool on_host) const {
  const std::vector<Factors>& factors = on_host ? factors_ : factors_there_;
  const auto num_sums = static_cast<std::size_t>(rule_.num_sums());
  const ParameterValues& values = values_[param];
  const auto group = static_cast<std::size_t>(values.group);
  const bool grouped = values.group >= 0;
  return {
      .step = steps_[param],
      .lr = grouped && !rates_.by_group.empty() ? rates_.by_group[group] : rates_.lr * values.lr_scale,
      .gradient_scale = scale_,
      .weight_decay = grouped && !rates_.decay_by_group.empty() ? rates_.decay_by_group[group] : values.weight_decay,
      .sums = sums_.empty() ? std::span<const double>{} : std::span(sums_).subspan(param * num_sums, num_sums),
      .matrix = matrices_[param],
      .factors = factors.empty() ? Factors{} : factors[param],
      .numel = numels_[param]};
}

void Updater::merge(int unit, const OuterStep& outer, OuterSum& sum) {
  const AtWork at_work(*this);
  finish();
  const double start = monotonic_seconds();
  present_.assign(present_.size(), true);
  sum.begin(unit);
  take_differences(unit, outer, sum.elements(), [&] { sum.take_largest(unit); });
  sum.add(unit);
  const Gradient elements{.data = reinterpret_cast<const std::byte*>(sum.elements())};
  pass_over(unit, Pass::kMerge, elements, kUnchanged,
            [&](std::size_t /*param*/, const UpdateSpan& span) { outer.update(span); });
  seconds_ += monotonic_seconds() - start;
}

void Updater::take_off(int unit, const OuterStep& outer, OuterFlight& flight) {
  const AtWork at_work(*this);
  finish();
  const double start = monotonic_seconds();
  present_.assign(present_.size(), true);
  flight.begin(unit);
  take_differences(unit, outer, flight.elements(), [&] { flight.take_largest(); });
  flight.pack(unit);
  seconds_ += monotonic_seconds() - start;
}

void Updater::land(int unit, const OuterStep& outer, OuterFlight& flight) {
  const AtWork at_work(*this);
  finish();
  const double start = monotonic_seconds();
  present_.assign(present_.size(), true);
  const Gradient sums{.data = reinterpret_cast<const std::byte*>(flight.sums(unit))};
  pass_over(unit, Pass::kAnchors, sums, kUnchanged,
            [&](std::size_t /*param*/, const UpdateSpan& span) { outer.move(span); });
  seconds_ += monotonic_seconds() - start;
}

// `take_largest` leaves in `elements` the part that is not sent.
template <typename TakeLargest>
void Updater::take_differences(int unit, const OuterStep& outer, float* elements, TakeLargest take_largest) {
  pass_over(
      unit, Pass::kDifferences, {},
      [&](TileMemory& memory, const Tile& tile) { memory.states[outer.momentum_place()] = elements + tile.begin; },
      [&](std::size_t /*param*/, const UpdateSpan& span) { outer.subtract(span); });
  if (!outer.keeps_residual()) return;
  take_largest();
  pass_over(unit, Pass::kResiduals, {.data = reinterpret_cast<const std::byte*>(elements)}, kUnchanged,
            [&](std::size_t /*param*/, const UpdateSpan& span) { outer.keep(span); });
}

void Updater::bring_whole(HostTile& whole, const Tile& tile, TileMemory& memory, Pass pass) const {
  if (state_.device().host_readable()) return;
  const auto bytes = [&tile](const std::byte* data, DType dtype) {
    return std::span(data, static_cast<std::size_t>(tile.numel) * size_of(dtype));
  };
  if (slots_.gradient < 0 && memory.gradient != nullptr && reads_gradient(pass))
    memory.gradient = whole.bring(bytes(memory.gradient, memory.gradient_dtype));
  if (slots_.parameter < 0 && reads_parameter(pass)) {
    const std::span<const std::byte> held = bytes(memory.held, memory.held_dtype);
    if (memory.held_dtype == DType::kFloat32) {
      memory.held = whole.bring(held);
      memory.parameter = reinterpret_cast<float*>(memory.held);
    } else {  // only written: the tile has a master
      memory.held = writes(pass) ? whole.room(held) : nullptr;
    }
  }
  whole.wait();
}

void Updater::send_whole(HostTile& whole, const Tile& tile, const TileMemory& there, const Shard& range, Pass pass) {
  if (state_.device().host_readable() || slots_.parameter >= 0 || !reads_parameter(pass)) return;
  for_each_part(tile, there, range, [&](std::size_t /*param*/, const UpdateSpan& part) {
    std::byte* const held =
        part.low_precision != nullptr ? part.low_precision : reinterpret_cast<std::byte*>(part.parameter);
    whole.send({held, static_cast<std::size_t>(part.numel) * size_of(there.held_dtype)});
  });
  follow(state_.device(), Lane::kUpdate, Lane::kUp);
  queued_ = true;
}

void Updater::update_tile(const Tile& tile, std::byte* copy_to) {
  const Unit& unit = state_.unit(tile.unit);
  const auto index = static_cast<std::size_t>(tile.unit);
  ZERO_CHECK(gradients_[index].given, "the update of {} came before its gradient", unit.name);
  TimedSpan span(tile.on_host ? timeline_ : nullptr, Activity::kUpdate, tile.unit, bytes_of(tile));
  const TileMemory there = memory_of(tile, gradients_[index].data, gradients_[index].dtype);
  const Shard range{state_.update_range(tile.unit).offset + tile.begin, tile.numel};
  TileMemory memory = there;
  if (tile.on_host) {
    HostTile whole(state_.device(), host_tiles_, state_.streams().lanes(), tile.unit);
    bring_whole(whole, tile, memory, queue_pass());
    for_each_span(tile, memory, range, [this](std::size_t param, const UpdateSpan& elements) {
      pass_rule_->update(elements, scalars_of(param));
    });
    send_whole(whole, tile, there, range, queue_pass());
  } else {
    std::vector<SpanUpdate> together;  // on a GPU, a launch takes longer than the update of a small parameter
    for_each_part(tile, memory, range, [&](std::size_t param, const UpdateSpan& elements) {
      together.push_back({elements, scalars_of(param, tile.on_host)});
    });
    const LaneSpan timed = time_queued(tile.unit, bytes_of(tile));
    pass_rule_->queue(state_.device(), Lane::kUpdate, together);
  }
  if (copy_to != nullptr) {
    const auto bytes = static_cast<std::size_t>(bytes_of(tile));
    std::byte* const to = copy_to + tile.begin * static_cast<std::int64_t>(size_of(unit.dtype));
    state_.device().copy(Lane::kUpdate, {to, bytes}, {memory.held, bytes});
  }
  span.end();
  queued_ = queued_ || !tile.on_host;
  const int done = tile.unit;
  state_.streams().update_pass().put_back();
  if (state_.streams().update_pass().next_unit() != done) outstanding_[index] = false;
}

}  // namespace zero
