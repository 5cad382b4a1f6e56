// Training with an update rule of a user.
#include <gtest/gtest.h>

#include "zero/engine/place/gather_budget.h"
#include "zero/engine/update/matrix_directions.h"

#include "tests/support/message_of.h"
#include "tests/support/orthogonal_rule.h"
#include "tests/torch/plain_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

// A rule that steps by the sign of the gradient and fills its first two of `moments` states.
class SignRule final : public UpdateRule {
 public:
  explicit SignRule(int moments) : moments_(moments) {}
  std::string_view name() const override { return "sign"; }
  std::vector<StateSpec> states() const override {
    std::vector<StateSpec> all{{"last"}, {"before_last"}, {"a"}, {"b"}, {"c"}};
    all.resize(static_cast<std::size_t>(moments_));
    return all;
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    for (std::int64_t i = 0; i < span.numel; ++i) {
      const float gradient = span.gradient_at(i) * static_cast<float>(scalars.gradient_scale);
      if (moments_ > 1) span.states[1][i] = span.states[0][i];
      if (moments_ > 0) span.states[0][i] = gradient;
      span.parameter[i] -= static_cast<float>(scalars.lr) * static_cast<float>((gradient > 0) - (gradient < 0));
    }
    span.write_low_precision();
  }

 private:
  int moments_;
};

// Its four states are in 8 bits, and stay zeros.
class CodedRule final : public UpdateRule {
 public:
  std::string_view name() const override { return "coded"; }
  std::vector<StateSpec> states() const override {
    std::vector<StateSpec> all{{"a"}, {"b"}, {"c"}, {"d"}};
    for (StateSpec& state : all) state.code = StateCode::kSigned8;
    return all;
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    SignRule(0).update(span, scalars);
  }
};

AttachOptions with_rule(int moments) {
  return {.optimizer = OwnRule{.rule = std::make_shared<SignRule>(moments), .lr = 0.01}, .clip = 0.5};
}

TEST(OwnRule, StagesAndTiersKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int moments : {0, 1, 2}) {
      AttachOptions options = with_rule(moments);
      options.dtype = dtype;
      const tests::RunResult plain = tests::train_plain(4, options, tests::tied_net);
      std::vector<AttachOptions> all = tests::all_stages(options);
      options.stage = 3;
      options.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.5}};
      all.push_back(options);
      for (const AttachOptions& placed : all) {
        const tests::RunResult run = tests::train(1, 4, placed, tests::tied_net);
        EXPECT_TRUE(tests::same_bits(run.parameters, plain.parameters)) << tests::placement_of(placed);
      }
      const tests::RunResult two = tests::train(2, 4, all[0], tests::tied_net);
      for (const AttachOptions& placed : all)
        EXPECT_TRUE(tests::same_bits(tests::train(2, 4, placed, tests::tied_net).parameters, two.parameters))
            << tests::placement_of(placed);
    }
  }
}

// A user's rule object with states of matrices, of rows and columns, or in 8 bits equals the built-in rule of that
// name.
TEST(OwnRule, MatchesBuiltInRules) {
  const std::vector<OptimizerOptions> named{Muon{.lr = 0.02, .weight_decay = 0}, Adafactor{.lr = 0.02},
                                            AdamW8bit{.lr = 0.02, .weight_decay = 0}};
  for (const OptimizerOptions& optimizer : named) {
    const OptimizerOptions own =
        OwnRule{.rule = std::shared_ptr<const UpdateRule>(make_update_rule(optimizer)), .lr = 0.02};
    for (const auto& [world, stage] : {std::pair{1, 0}, {2, 1}, {2, 3}}) {
      const auto run = [&](const OptimizerOptions& options) {
        return tests::train(world, 4, {.stage = stage, .optimizer = options, .clip = 0.5}, tests::tied_net);
      };
      EXPECT_TRUE(tests::same_bits(run(own).parameters, run(optimizer).parameters))
          << name_of(optimizer) << ", stage " << stage;
    }
  }
}

AttachOptions with_orthogonal_rule(int stage, std::int64_t spare = 0) {
  return {.stage = stage, .optimizer = OwnRule{.rule = std::make_shared<OrthogonalRule>(spare), .lr = 0.02}};
}

// At every stage.
TEST(OwnRule, MatrixRuleKeepsStageBits) {
  for (const int world : {1, 2, 3}) {
    const tests::RunResult first = tests::train(world, 4, with_orthogonal_rule(0), tests::tied_net);
    for (const AttachOptions& placed : tests::all_stages(with_orthogonal_rule(0))) {
      const tests::RunResult run = tests::train(world, 4, placed, tests::tied_net);
      EXPECT_TRUE(tests::same_bits(run.parameters, first.parameters)) << world << " ranks, stage " << placed.stage;
      for (const EngineReport& report : run.reports)
        EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << world << " ranks, stage " << placed.stage;
    }
  }
}

// A state without `.of` belongs to all parameters.
TEST(OwnRule, MatrixRuleMayHaveOrdinaryStates) {
  AttachOptions options = with_orthogonal_rule(0);
  options.optimizer = OwnRule{.rule = std::make_shared<OrthogonalRule>(0, StateOf::kAll), .lr = 0.02};
  const tests::RunResult of_matrices = tests::train(2, 3, with_orthogonal_rule(0), tests::tied_net);
  for (const AttachOptions& placed : tests::all_stages(options)) {
    const tests::RunResult of_all = tests::train(2, 3, placed, tests::tied_net);
    EXPECT_TRUE(tests::same_bits(of_all.parameters, of_matrices.parameters)) << tests::placement_of(placed);
  }
}

TEST(OwnRule, MatrixRuleFollowsCompletedDirections) {
  const auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    const auto& net = nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(*net, ranks, with_orthogonal_rule(3));
    EXPECT_EQ(engine.state_names("blocks.0.up.weight"), (std::vector<std::string>{"parameter", "momentum"}));
    EXPECT_EQ(engine.state_names("scale"), (std::vector<std::string>{"parameter"}));
    const torch::Tensor before = engine.full_state("blocks.1.down.weight");
    loss_of(*net, 0, 0, ranks.rank()).backward();
    engine.step();
    const torch::Tensor step = (before - engine.full_state("blocks.1.down.weight")) / 0.02;
    EXPECT_LE((torch::mm(step, step.t()) - torch::eye(6)).abs().max().item<double>(), 1e-4);
  });
}

// Each of three blocks has the matrices up and down, 12 x 6 and 6 x 12.
TEST(OwnRule, MatrixRuleDeclaresMemoryAndOperations) {
  constexpr std::int64_t kSpare = 1 << 16;
  const Placement placement = place(0, Reduce::kAuto, 1);
  const auto units_with = [](std::int64_t spare) {
    return units_of(parameters_of(tests::TiedNet(), {}).specs, 1, with_orthogonal_rule(0, spare));
  };
  const auto staged_with = [](std::int64_t spare) {
    const tests::RunResult run = tests::train(1, 2, with_orthogonal_rule(0, spare), tests::tied_net);
    return run.reports[0].peak_memory.device[MemoryTag::kStaging];
  };
  const std::vector<Unit> units = units_with(kSpare);
  std::int64_t block = 0;
  for (const Unit& unit : units) block = std::max(block, unit.whole_matrices() ? padded_numel(unit, 1) : 0);
  EXPECT_EQ(matrix_bytes(units, 1, placement), 4 * (block + 12 + kSpare)) << "directions of a block, and a workspace";
  EXPECT_EQ(staged_with(kSpare), matrix_bytes(units, 1, placement));
  EXPECT_EQ(staged_with(2 * kSpare), matrix_bytes(units_with(2 * kSpare), 1, placement));
  EXPECT_EQ(staging_bytes(units_with(2 * kSpare), 1, placement, /*min_budget=*/false),
            staging_bytes(units, 1, placement, /*min_budget=*/false) + 4 * kSpare);
  EXPECT_EQ(matrix_flops(units, 1, placement, OrthogonalRule()), 6 * 2 * 6 * 6 * 12);
}

TEST(OwnRule, MatrixRuleNeedsMatrices) {
  tests::on_every_rank(1, [](World& ranks) {
    torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({4}));
    const auto refusal = [&](const AttachOptions& options) {
      return message_of<ConfigError>([&] { attach(*norm, ranks, options); });
    };
    EXPECT_TRUE(says(refusal(with_orthogonal_rule(3)), "optimizer.rule"));
    EXPECT_TRUE(says(refusal(with_orthogonal_rule(3)), "no hidden matrix"));
    EXPECT_TRUE(says(refusal({.optimizer = Muon{}}), "use adamw"));
  });
}

TEST(OwnRule, NamesStatesAndLearningRate) {
  tests::on_every_rank(1, [](World& ranks) {
    tests::TiedNet net;
    Engine engine = attach(net, ranks, with_rule(2));
    EXPECT_EQ(engine.state_names(), (std::vector<std::string>{"parameter", "last", "before_last"}));
    const torch::Tensor before = engine.full_state("scale");
    loss_of(net, 0, 0, 0).backward();
    engine.step();
    EXPECT_NEAR((engine.full_state("scale") - before).abs().item<double>(), 0.01, 1e-6);
  });
}

TEST(OwnRule, MayKeepFourCodedStates) {
  AttachOptions options{.optimizer = OwnRule{.rule = std::make_shared<CodedRule>(), .lr = 0.01}, .ema = 0.5};
  options.dtype = DType::kBFloat16;
  const tests::RunResult plain = tests::train(2, 2, options, tests::tied_net);
  for (const AttachOptions& placed : tests::all_stages(options))
    EXPECT_TRUE(tests::same_bits(tests::train(2, 2, placed, tests::tied_net).parameters, plain.parameters))
        << tests::placement_of(placed);
}

TEST(OwnRule, RefusesMissingOrExcessiveRule) {
  tests::on_every_rank(1, [](World& ranks) {
    tests::TiedNet net;
    EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(net, ranks, {.optimizer = OwnRule{}}); }), "optimizer.rule"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(net, ranks, with_rule(5)); }), "5 states"));
  });
}

}  // namespace
}  // namespace zero
