// RuleRow: the facts of an update rule that need no rule object: name, needs of a parameter, and keys.
//
//   LionOptions::kRow.name                              // "lion"
//   LionOptions::kRow.reads("optimizer.trust_ratio")    // false: another rule's key
//
// Each rule's options have a row, kRow. zero/optim/rule_registry.h makes a table of the rows, by which the
// configuration refuses keys and writes help texts. Values; Local. No torch: a configuration is refused before libtorch
// is loaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace zero {

// The part of a parameter that a rule needs at once.
enum class RuleNeeds : std::uint8_t {
  kElements,        // each element by itself (with states in 8 bits: each block)
  kSums,            // sums over the whole parameter
  kRowsAndColumns,  // a matrix's states of rows and columns (FactorRule)
  kMatrices         // matrices as wholes (MatrixRule)
};

// A key of [optimizer] that a rule reads.
struct RuleKey {
  std::string_view name;     // "optimizer.betas"
  std::string_view note{};   // its meaning to this rule, if that differs from the general one; ends the help text
  std::string_view usual{};  // this rule's default value as TOML, if it differs from RuleKeys
};

struct RuleRow {
  std::string_view name;  // optimizer.name
  RuleNeeds needs = RuleNeeds::kElements;
  // Keys beside those that every rule reads; the latter also if this rule has its own note or default value for them.
  std::span<const RuleKey> keys{};
  // For a rule of matrices: the rule of all other parameters. A parameter group selects either name.
  std::string_view others{};

  // Returns null if `keys` has no key of that name.
  constexpr const RuleKey* find(std::string_view key) const {
    const auto found = std::ranges::find(keys, key, &RuleKey::name);
    return found == keys.end() ? nullptr : &*found;
  }
  // Returns whether the rule reads the key; also true for keys of other sections.
  constexpr bool reads(std::string_view key) const {
    return !key.starts_with("optimizer.") || key == "optimizer.name" || key == "optimizer.lr" ||
           key == "optimizer.weight_decay" || key == "optimizer.group" || find(key) != nullptr;
  }
};

}  // namespace zero
