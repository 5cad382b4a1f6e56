#include "zero/plan/units/unit.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "zero/base/error/check.h"

namespace zero {
namespace {

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool has_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

// "transformer.h.0.attn.bias" -> "transformer.h.0". If no numbered part has parameters below it: "root".
std::string repeated_block(std::string_view name) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = name.find('.', begin);
    if (dot == std::string_view::npos) return "root";
    if (is_number(name.substr(begin, dot - begin))) return std::string(name.substr(0, dot));
    begin = dot + 1;
  }
}

std::string longest_prefix(std::string_view name, const std::vector<std::string>& prefixes) {
  const std::string* best = nullptr;
  for (const auto& prefix : prefixes) {
    if (has_prefix(name, prefix) && (best == nullptr || prefix.size() > best->size())) best = &prefix;
  }
  return best != nullptr ? *best : "root";
}

// A tied parameter is planned under its first name only.
void require_parameters(const std::vector<ParamSpec>& specs, const std::string& prefix,
                        const std::vector<std::string>& prefixes) {
  const auto matches = [&](const std::string& name) { return has_prefix(name, prefix); };
  if (std::ranges::any_of(specs, matches, &ParamSpec::name)) return;
  for (const ParamSpec& spec : specs) {
    const auto alias = std::ranges::find_if(spec.aliases, matches);
    if (alias == spec.aliases.end()) continue;
    throw ConfigError(
        "units", prefix,
        fmt::format("{} is tied to {}, which unit {} holds", *alias, spec.name, longest_prefix(spec.name, prefixes)),
        fmt::format("leave {} out; to put {} into its own unit, name a module that holds it", prefix, spec.name));
  }
  throw ConfigError("units", prefix, "no parameter has this prefix", "name a module as it appears in parameter names");
}

// Returns whether a module's name ends in a number: "h.3", but not "fc1".
bool ends_in_number(std::string_view name) {
  return is_number(name.substr(name.rfind('.') + 1));
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::vector<Unit> make_units(const std::vector<ParamSpec>& specs, const std::vector<std::string>& prefixes,
                             std::int64_t grain, const MatrixChoice& is_matrix, std::int64_t align_bytes) {
  for (const std::string& prefix : prefixes) require_parameters(specs, prefix, prefixes);
  std::vector<Unit> units;
  std::map<std::string, int> blocks;  // first unit of each block
  std::map<std::tuple<std::string, DType, bool, bool>, int> known;
  for (std::size_t index = 0; index < specs.size(); ++index) {
    const ParamSpec& spec = specs[index];
    std::string name = !prefixes.empty() ? longest_prefix(spec.name, prefixes)
                       : spec.own_unit   ? spec.name
                                         : repeated_block(spec.name);
    const bool matrix = spec.trainable && !spec.shape.empty() && spec.numel() > 0 && is_matrix(spec);
    const auto [entry, fresh] =
        known.try_emplace({name, spec.dtype, spec.trainable, matrix}, static_cast<int>(units.size()));
    if (fresh) {
      const auto taken = [&units](const std::string& other) {
        return std::ranges::find(units, other, &Unit::name) != units.end();
      };
      std::string suffix = matrix ? " (matrices)" : "";
      if (taken(name + suffix))
        suffix =
            fmt::format(" ({}{}{})", spec.trainable ? "" : "frozen ", name_of(spec.dtype), matrix ? " matrices" : "");
      units.push_back({.index = entry->second,
                       .name = name + suffix,
                       .dtype = spec.dtype,
                       .trainable = spec.trainable,
                       .repeated = name != spec.name && ends_in_number(name),
                       .first_unit_of_block = blocks.try_emplace(name, entry->second).first->second,
                       .grain = spec.trainable ? grain : 1,
                       .align_bytes = align_bytes,
                       .factored = matrix && is_matrix.factored});
    }
    Unit& unit = units[static_cast<std::size_t>(entry->second)];
    const std::int64_t offset = round_up(unit.numel, alignment_numel(unit));
    unit.slices.push_back({static_cast<int>(index), offset, spec.numel(), matrix ? spec.shape.front() : 0});
    unit.numel = offset + spec.numel();
  }
  return units;
}

std::vector<SliceAddress> addresses_of(const std::vector<Unit>& units, std::size_t num_params) {
  std::vector<SliceAddress> addresses(num_params, SliceAddress{-1, -1});
  for (const Unit& unit : units) {
    for (std::size_t slice = 0; slice < unit.slices.size(); ++slice) {
      auto& address = addresses.at(static_cast<std::size_t>(unit.slices[slice].param));
      ZERO_CHECK(address.unit < 0, "parameter {} is in two units", unit.slices[slice].param);
      address = {unit.index, static_cast<int>(slice)};
    }
  }
  for (const auto& address : addresses) ZERO_CHECK(address.unit >= 0, "a parameter is in no unit");
  return addresses;
}

}  // namespace zero
