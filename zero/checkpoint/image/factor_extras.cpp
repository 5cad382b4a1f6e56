#include "zero/checkpoint/image/factor_extras.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

std::string name_of(const FactorStates::State& state, const RankEngine& engine) {
  return fmt::format("{}{}/{}", kFactorPrefix, state.name, engine.specs()[state.param].name);
}

}  // namespace

std::vector<Extra> factor_extras(const RankEngine& engine) {
  std::vector<Extra> extras;
  for (const FactorStates::State& state : engine.states().factors()) {
    const std::span<const std::byte> bytes = std::as_bytes(state.values);
    extras.push_back({.name = name_of(state, engine),
                      .dtype = ElementType::kF32,
                      .shape = {std::ssize(state.values)},
                      .bytes = {bytes.begin(), bytes.end()}});
  }
  return extras;
}

void require_factors(const std::vector<SavedExtra>& saved, const RankEngine& engine, const std::string& path) {
  for (const FactorStates::State& state : engine.states().factors()) {
    const std::string name = name_of(state, engine);
    const auto found = std::ranges::find(saved, name, &SavedExtra::name);
    const std::vector<std::int64_t> shape{std::ssize(state.values)};
    if (found == saved.end() || found->dtype != ElementType::kF32 || found->shape != shape)
      throw ConfigError("checkpoint", path, fmt::format("it has no {} of {} fp32 values", name, shape[0]),
                        "load one that was saved with the same optimizer and model");
  }
}

void take_factors(const std::vector<Extra>& extras, const RankEngine& engine) {
  for (const FactorStates::State& state : engine.states().factors()) {
    const auto found = std::ranges::find(extras, name_of(state, engine), &Extra::name);
    ZERO_CHECK(found != extras.end() && found->bytes.size() == state.values.size_bytes());
    std::memcpy(state.values.data(), found->bytes.data(), found->bytes.size());
  }
}

}  // namespace zero
