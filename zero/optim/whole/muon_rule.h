// MuonOptions: Muon, which steps matrices along directions with singular values near 1 (muon_kernel.h).
//
//   auto rule = make_rule(MuonOptions{.lr = 0.02, .adamw = {.lr = 1e-3}});
//   rule->states()             // "momentum_buffer" of matrices; "exp_avg", "exp_avg_sq" of other parameters
//   rule->matrices()->...      // computes directions of matrices before update(); see MatrixRule
//
// Every other parameter is updated by AdamW (adam_kernel.h) with its own learning rate. Local.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "zero/base/numbers/choice.h"
#include "zero/optim/elementwise/adam_rule.h"
#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

// Scale of a matrix's steps, as torch.optim.Muon's adjust_lr_fn; muon_kernel.h has the formulas.
enum class MuonScale : std::uint8_t { kOriginal, kMatchRmsAdamW };
inline constexpr std::array<Choice<MuonScale>, 2> kMuonScales{
    {{"original", MuonScale::kOriginal}, {"match_rms_adamw", MuonScale::kMatchRmsAdamW}}};

// Options of matrices, with the default values of torch.optim.Muon. `adamw`: options of all other parameters. Weight
// decay is decoupled.
struct MuonOptions {
  double lr = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  MuonScale scale = MuonScale::kOriginal;
  int steps = 5;                   // Newton-Schulz iterations
  double weight_decay = 0.1;       // for all parameters with two or more dimensions
  AdamWOptions adamw = {.lr = 0};  // lr 0: the same as matrices; its weight_decay is ignored

  static constexpr std::array kKeys{RuleKey{"optimizer.betas", "those of its adamw"},
                                    RuleKey{"optimizer.eps", "that of its adamw"},
                                    RuleKey{.name = "optimizer.momentum", .usual = "0.95"},
                                    RuleKey{.name = "optimizer.nesterov", .usual = "true"},
                                    RuleKey{"optimizer.muon_scale"},
                                    RuleKey{"optimizer.adamw_lr"},
                                    RuleKey{"optimizer.group", "also rule = \"muon\" or \"adamw\""}};
  static constexpr RuleRow kRow{
      .name = "muon", .needs = RuleNeeds::kMatrices, .keys = kKeys, .others = AdamWOptions::kRow.name};
  static MuonOptions from(const RuleKeys& keys);
  bool operator==(const MuonOptions&) const = default;
};

using Muon = MuonOptions;

// Makes the rule. Throws ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const MuonOptions& options);

}  // namespace zero
