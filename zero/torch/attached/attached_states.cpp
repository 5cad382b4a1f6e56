#include "zero/torch/attached/attached_states.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/ranges.h>

#include <c10/core/GradMode.h>
#include <torch/types.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/engine/states/unit_blocks.h"
#include "zero/plan/units/partition.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {
namespace {

// Returns a view of one parameter in its unit's flat range.
torch::Tensor in_flat_range(std::span<const float> whole, const Slice& slice, const ParamSpec& spec) {
  return torch::from_blob(const_cast<float*>(whole.data()) + slice.offset, spec.shape, torch::kFloat32);
}

// Returns the parameters in ascending order of their names.
std::vector<int> in_name_order(const std::vector<ParamSpec>& specs) {
  std::vector<int> order(specs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](int param) -> const std::string& { return specs[static_cast<std::size_t>(param)].name; });
  return order;
}

}  // namespace

void AttachedStates::for_each_parameter(const ParameterVisit& visit, bool full_precision) {
  std::size_t next = 0;
  do {
    next = visit_some(next, visit, full_precision);
  } while (next != 0);
}

// Neighbouring parameters of one unit are read together.
std::size_t AttachedStates::visit_some(std::size_t first, const ParameterVisit& visit, bool full_precision) {
  if (first == 0) engine_.writes().require_same(engine_.resources().comm, parameters_.specs());
  const std::vector<int> order = in_name_order(parameters_.specs());
  if (first >= order.size()) return 0;
  c10::AutoGradMode no_gradients(false);
  const int unit = parameters_.address(order[first]).unit;
  std::size_t end = first;
  while (end < order.size() && parameters_.address(order[end]).unit == unit) ++end;
  engine_.states().read_full_precision(unit, [&](std::span<const float> whole) {
    for (std::size_t i = first; i < end; ++i) {
      const ParamSpec& spec = parameters_.spec(order[i]);
      const torch::Tensor values = in_flat_range(whole, parameters_.slice(order[i]), spec);
      visit(spec.name, full_precision ? values : values.to(to_scalar_type(spec.dtype)));
    }
  });
  return end < order.size() ? end : 0;
}

std::vector<std::string> AttachedStates::names_of(const std::string& name) const {
  const int unit = parameters_.address(parameters_.find(name, "state")).unit;
  std::vector<std::string> names = engine_.states().names(), kept;
  for (std::size_t state = 0; state < names.size(); ++state)
    if (engine_.states().contents().keeps(unit, static_cast<int>(state))) kept.push_back(std::move(names[state]));
  const auto param = static_cast<std::size_t>(parameters_.find(name, "state"));
  for (const FactorStates::State& factor : engine_.states().factors())
    if (factor.param == param) kept.emplace_back(factor.name);
  return kept;
}

int AttachedStates::state_of(int param, const std::string& state) const {
  const std::vector<std::string> names = engine_.states().names();
  const auto found = std::ranges::find(names, state);
  if (found == names.end())
    throw ConfigError("state", state, "this optimizer has no such state",
                      fmt::format("use one of {}", fmt::join(names, ", ")));
  const int index = static_cast<int>(found - names.begin());
  if (index >= engine_.states().contents().num_saved_states(parameters_.address(param).unit))
    throw ConfigError("state", state, fmt::format("{} is frozen", parameters_.spec(param).name),
                      "a frozen parameter has no optimizer states");
  if (!engine_.states().contents().keeps(parameters_.address(param).unit, index))
    throw ConfigError("state", state, fmt::format("{} has none", parameters_.spec(param).name),
                      fmt::format("use one of {}", fmt::join(names_of(parameters_.spec(param).name), ", ")));
  return index;
}

void AttachedStates::read(int unit, int state, std::int64_t first, torch::Tensor& to) {
  const DType dtype = engine_.states().contents().saved_dtype(unit, state);
  engine_.states().read_shard(unit, state, [&](std::int64_t begin, std::span<const std::byte> elements) {
    const auto numel = static_cast<std::int64_t>(elements.size() / size_of(dtype));
    const std::int64_t from = std::max(begin, first), until = std::min(begin + numel, first + to.numel());
    if (from >= until) return;
    const std::byte* source = elements.data() + (from - begin) * static_cast<std::int64_t>(size_of(dtype));
    to.narrow(0, from - first, until - from)
        .copy_(torch::from_blob(const_cast<std::byte*>(source), {until - from}, to_scalar_type(dtype)));
  });
}

StateShard AttachedStates::shard(const std::string& name, const std::string& state) {
  const int param = parameters_.find(name, "state");
  const int index = state_of(param, state);
  engine_.states().pause("state", "read");
  c10::AutoGradMode no_gradients(false);
  const Unit& unit = parameters_.units()[static_cast<std::size_t>(parameters_.address(param).unit)];
  const Communicator& copy = engine_.resources().copy;
  const Shard own = shard_of(unit, copy.rank(), copy.world());
  if (unit.scattered)
    throw ConfigError("state_shard", name, "zero.shards = \"hash\" gives a rank several parts of a state",
                      "call full_state(), or use zero.shards range or whole");
  const SlicePart part = overlap(parameters_.slice(param), own);
  if (part.numel == 0) return {.values = torch::empty({0}, torch::kFloat32)};
  StateShard shard{.offset = part.begin, .values = torch::empty({part.numel}, torch::kFloat32)};
  read(unit.index, index, part.offset, shard.values);
  return shard;
}

torch::Tensor AttachedStates::full(const std::string& name, const std::string& state) {
  const int param = parameters_.find(name, "state");
  for (const FactorStates::State& factor : engine_.states().factors()) {
    if (factor.param != static_cast<std::size_t>(param) || factor.name != state) continue;
    engine_.states().pause("state", "read");
    return torch::from_blob(factor.values.data(), {std::ssize(factor.values)}, torch::kFloat32).clone();
  }
  const int index = state_of(param, state);
  engine_.states().pause("state", "read");
  c10::AutoGradMode no_gradients(false);
  const Unit& unit = parameters_.units()[static_cast<std::size_t>(parameters_.address(param).unit)];
  Communicator& copy = engine_.resources().copy;
  const Shard own = shard_of(unit, copy.rank(), copy.world());
  torch::Tensor whole = torch::zeros({padded_numel(unit, copy.world())}, torch::kFloat32);
  torch::Tensor mine = whole.narrow(0, own.offset, own.numel);
  read(unit.index, index, own.offset, mine);
  const auto bytes = [](const torch::Tensor& tensor) {
    return std::span<std::byte>{static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
  };
  all_gather(copy, bytes(mine), bytes(whole),
             {.unit = unit.index, .control = true, .blocks = unit_blocks(unit, sizeof(float))});
  if (unit.scattered) {
    const torch::Tensor gathered = std::exchange(whole, torch::empty_like(whole));
    to_parameter_order(HostDevice::instance(), Lane::kGather, unit, bytes(gathered).data(), bytes(whole).data(),
                       sizeof(float));
  }
  const Slice& slice = parameters_.slice(param);
  return whole.narrow(0, slice.offset, slice.numel).reshape(parameters_.spec(param).shape).clone();
}

torch::Tensor AttachedStates::gradient(const std::string& name) {
  const int param = parameters_.find(name, "gradient");
  const ParamSpec& spec = parameters_.spec(param);
  if (!spec.trainable)
    throw ConfigError("gradient", name, "it is frozen", "ask for one whose requires_grad was set before attach()");
  c10::AutoGradMode no_gradients(false);
  torch::Tensor gradient;
  engine_.gradients().read(parameters_.address(param).unit, [&](std::span<const float> whole) {
    gradient = in_flat_range(whole, parameters_.slice(param), spec).clone();
  });
  return gradient;
}

std::map<std::string, double> AttachedStates::gradient_norms() {
  const std::vector<double> norms = engine_.gradients().norms();
  std::map<std::string, double> by_name;
  for (std::size_t param = 0; param < norms.size(); ++param) {
    const ParamSpec& spec = parameters_.specs()[param];
    if (spec.trainable) by_name[spec.name] = norms[param];
  }
  return by_name;
}

}  // namespace zero
