// RuleRow: what is known of an update rule without making one: its name, what it needs of a parameter, the keys that it
// reads. Each rule's options have a row, kRow; zero/optim/rule_registry.h makes the table of them. The configuration
// refuses by that table, and writes its help texts from it.
//
//   LionOptions::kRow.name                              // "lion"
//   LionOptions::kRow.reads("optimizer.trust_ratio")    // false: another rule's key
//
// Values; Local. No torch: a configuration is refused before libtorch is loaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace zero {

// What a rule needs of a parameter at once.
enum class RuleNeeds : std::uint8_t {
  kElements,        // each element alone (with states in 8 bits: each block)
  kSums,            // sums over the whole parameter
  kRowsAndColumns,  // a matrix's states of rows and columns (FactorRule)
  kMatrices         // matrices as wholes (MatrixRule)
};

// A key of [optimizer] that a rule reads.
struct RuleKey {
  std::string_view name;     // "optimizer.betas"
  std::string_view note{};   // what it means to this rule, where that is not what it means to all: ends its help
  std::string_view usual{};  // value as TOML where none is given and this rule's is not that of RuleKeys
};

struct RuleRow {
  std::string_view name;  // optimizer.name
  RuleNeeds needs = RuleNeeds::kElements;
  // Beside those that every rule reads; of these, too, where a note or a usual value is this rule's own.
  std::span<const RuleKey> keys{};
  // Of a rule of matrices: the rule of all other parameters. A parameter group chooses by either name.
  std::string_view others{};

  // Null: it has none of that name in `keys`.
  constexpr const RuleKey* find(std::string_view key) const {
    const auto found = std::ranges::find(keys, key, &RuleKey::name);
    return found == keys.end() ? nullptr : &*found;
  }
  // Also true of the keys of other sections.
  constexpr bool reads(std::string_view key) const {
    return !key.starts_with("optimizer.") || key == "optimizer.name" || key == "optimizer.lr" ||
           key == "optimizer.weight_decay" || key == "optimizer.group" || find(key) != nullptr;
  }
};

}  // namespace zero
