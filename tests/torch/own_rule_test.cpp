// Training with an update rule that a user wrote.
#include <gtest/gtest.h>

#include "plain_run.h"
#include "subjects.h"
#include "tests/message_of.h"

namespace zero {
namespace {

// Sign of the gradient; with `moments` of them, which it fills.
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

AttachOptions with_rule(int moments) {
  return {.optimizer = OwnRule{.rule = std::make_shared<SignRule>(moments), .lr = 0.01}, .clip = 0.5};
}

TEST(OwnRule, HasTheSameBitsAtEveryStageAndOnEveryTier) {
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

// A rule that a user hands over, with states of matrices, of rows and columns, or in 8 bits: as the same rule by its name.
TEST(OwnRule, OfMatricesRowsOrCodesHasTheBitsOfTheSameRuleByItsName) {
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

TEST(OwnRule, NamesItsStatesAndGivesTheLearningRate) {
  tests::on_every_rank(1, [](World& ranks) {
    tests::TiedNet net;
    Attachment engine = attach(net, ranks, with_rule(2));
    EXPECT_EQ(engine.state_names(), (std::vector<std::string>{"parameter", "last", "before_last"}));
    const torch::Tensor before = engine.full_state("scale");
    loss_of(net, 0, 0, 0).backward();
    engine.step();
    EXPECT_NEAR((engine.full_state("scale") - before).abs().item<double>(), 0.01, 1e-6);
  });
}

TEST(OwnRule, ThatIsMissingOrWantsTooMuchIsRefused) {
  tests::on_every_rank(1, [](World& ranks) {
    tests::TiedNet net;
    EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(net, ranks, {.optimizer = OwnRule{}}); }), "optimizer.rule"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(net, ranks, with_rule(5)); }), "5 states"));
  });
}

}  // namespace
}  // namespace zero
