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

std::set<std::size_t> files_of_factors(const std::vector<SavedFile>& files, std::size_t own, const RankEngine& engine,
                                       const std::string& path) {
  std::set<std::size_t> found;
  for (const FactorStates::State& state : engine.states().factors()) {
    const std::string name = name_of(state, engine);
    const std::vector<std::int64_t> shape{std::ssize(state.values)};
    const auto has_it = [&](const SavedFile& file) {
      const auto extra = std::ranges::find(file.extras, name, &SavedExtra::name);
      return extra != file.extras.end() && extra->dtype == ElementType::kF32 && extra->shape == shape;
    };
    const auto file =
        has_it(files[own]) ? files.begin() + static_cast<std::ptrdiff_t>(own) : std::ranges::find_if(files, has_it);
    if (file == files.end())
      throw ConfigError("checkpoint", path, fmt::format("it has no {} of {} fp32 values", name, shape[0]),
                        "load one that was saved with the same optimizer and model");
    found.insert(static_cast<std::size_t>(file - files.begin()));
  }
  return found;
}

void take_factors(const std::vector<Extra>& extras, const RankEngine& engine) {
  for (const FactorStates::State& state : engine.states().factors()) {
    const auto found = std::ranges::find(extras, name_of(state, engine), &Extra::name);
    if (found == extras.end()) continue;
    ZERO_CHECK(found->bytes.size() == state.values.size_bytes(), "{} has {} B", found->name, found->bytes.size());
    std::memcpy(state.values.data(), found->bytes.data(), found->bytes.size());
  }
}

}  // namespace zero
