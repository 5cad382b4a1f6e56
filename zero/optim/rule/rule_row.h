// RuleRow, RuleKeys: the facts of an update rule that need no rule object: name, needs of a parameter, and keys.
//
//   LionOptions::kRow.name                              // "lion"
//   LionOptions::kRow.reads("optimizer.trust_ratio")    // false: another rule's key
//
// Each rule's options have a row, kRow. zero/optim/rule_registry.h makes a table of the rows, by which the
// configuration refuses keys and writes help texts. Values; Local. No torch: a configuration is refused before libtorch
// is loaded.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
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

// RuleKeys: the keys of [optimizer] that update rules read, with their default values.
//
//   LionOptions::from({.lr = 1e-4, .betas = {0.9, 0.99}})
//
// The function from() of a rule's options takes the keys that the rule reads (RuleRow::keys). A new key needs a member
// here, and a row in app/config/options/option_table.cpp. Values; Local.
struct RuleKeys {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.99};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0;
  bool nesterov = false;
  std::array<double, 2> trust_ratio = {0.01, 10};
  std::string muon_scale = "original";
  double adamw_lr = 0;
  // Keys of adafactor, with the default values of torch.optim.Adafactor.
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon();
  double eps2 = 1e-3;
  double clip = 1;
  bool operator==(const RuleKeys&) const = default;
};

}  // namespace zero
