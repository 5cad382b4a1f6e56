#include "zero/engine/update/updater.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

// A world of one rank at stage 0, whose parameters are all 1. An SGD update with a gradient of 1 subtracts lr *
// lr_scale.
struct Alone {
  std::vector<ParamSpec> specs;
  std::vector<Unit> units = make_units(specs, {});
  Ledger ledger;
  AttachOptions options;
  std::unique_ptr<UpdateRule> rule = make_update_rule(options.optimizer);
  ShardedState state;
  Updater updater;
  std::vector<float> gradient = std::vector<float>(4096, 1.0F);

  Alone(Communicator& comm, std::vector<ParamSpec> wanted, const AttachOptions& how)
      : specs(std::move(wanted)),
        options(how),
        state(units, place(0, Reduce::kAuto, 1), rule->states(), comm, ledger),
        updater(state, *rule, specs, options, comm, ledger, comm) {
    const std::vector<float> ones(4096, 1.0F);
    for (const Unit& unit : units)
      state.contents().load(unit.index, reinterpret_cast<const std::byte*>(ones.data()), DType::kFloat32);
  }
  void step(const std::vector<bool>& present, double scale = 1, double lr = 0.1) {
    std::vector<int> order;
    for (const Unit& unit : units) order.push_back(unit.index);
    updater.begin_step(present, order, scale, {.lr = lr});
    for (const int unit : order)
      updater.enqueue(unit, reinterpret_cast<const std::byte*>(gradient.data()), DType::kFloat32);
    updater.finish();
  }
  static const float* on_device(const StateArray& array) { return reinterpret_cast<const float*>(array.on_device(0)); }
  float value(int param) const {
    for (const Unit& unit : units) {
      for (const Slice& slice : unit.slices) {
        if (slice.param == param) return load_element(state.whole_parameter(unit.index), unit.dtype, slice.offset);
      }
    }
    return 0;
  }
};

const std::vector<ParamSpec> kTwo{{.name = "matrix", .shape = {2, 3}}, {.name = "bias", .shape = {3}}};

AttachOptions sgd(double weight_decay = 0, std::vector<ParameterGroup> groups = {}) {
  return {.optimizer = SgdOptions{.weight_decay = weight_decay}, .groups = std::move(groups)};
}

TEST(Updater, OnlyMatricesDecayByDefault) {
  on_ranks(1, [](Communicator& comm) {
    Alone alone(comm, kTwo, sgd(0.5));
    alone.step({true, true});
    EXPECT_FLOAT_EQ(alone.value(0), 1 - 0.1F * 1.5F);
    EXPECT_FLOAT_EQ(alone.value(1), 1 - 0.1F);
  });
}

TEST(Updater, TheFirstGroupThatMatchesWins) {
  on_ranks(1, [](Communicator& comm) {
    const auto is_bias = [](const ParamSpec& spec) { return spec.name == "bias"; };
    const auto anything = [](const ParamSpec&) { return true; };
    Alone alone(comm, kTwo, sgd(0.5, {{.matches = is_bias, .weight_decay = 1}, {.matches = anything}}));
    alone.step({true, true});
    EXPECT_FLOAT_EQ(alone.value(0), 1 - 0.1F * 1.5F) << "a group without a decay has the optimizer's";
    EXPECT_FLOAT_EQ(alone.value(1), 1 - 0.1F * 2);
  });
}

TEST(Updater, AGroupScalesTheLearningRate) {
  on_ranks(1, [](Communicator& comm) {
    const auto is_bias = [](const ParamSpec& spec) { return spec.shape.size() == 1; };
    const auto anything = [](const ParamSpec&) { return true; };
    Alone alone(comm, kTwo, sgd(0, {{.matches = is_bias, .lr_scale = 3}, {.matches = anything}}));
    alone.step({true, true});
    EXPECT_FLOAT_EQ(alone.value(0), 1 - 0.1F);
    EXPECT_FLOAT_EQ(alone.value(1), 1 - 0.3F);
  });
}

TEST(Updater, RefusesParametersWithoutAGroup) {
  on_ranks(1, [](Communicator& comm) {
    const auto is_bias = [](const ParamSpec& spec) { return spec.name == "bias"; };
    try {
      Alone(comm, kTwo, sgd(0, {{.matches = is_bias}}));
      ADD_FAILURE() << "accepted";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "groups");
      EXPECT_NE(std::string(error.what()).find("matrix"), std::string::npos) << error.what();
    }
    auto frozen = kTwo;
    frozen[0].trainable = false;
    EXPECT_NO_THROW(Alone(comm, frozen, sgd(0, {{.matches = is_bias}}))) << "frozen parameters need no group";
  });
}

TEST(Updater, TheScaleMultipliesTheGradient) {
  on_ranks(1, [](Communicator& comm) {
    Alone alone(comm, kTwo, sgd());
    alone.step({true, true}, 0.25);
    EXPECT_FLOAT_EQ(alone.value(0), 1 - 0.1F * 0.25F);
  });
}

TEST(Updater, AbsentParametersStayUncounted) {
  on_ranks(1, [](Communicator& comm) {
    Alone alone(comm, kTwo, {.optimizer = AdamWOptions{.weight_decay = 0}});
    alone.step({true, false});
    EXPECT_EQ(alone.value(1), 1);
    EXPECT_EQ(alone.on_device(alone.state.arrays().optimizer[0].array)[alone.units[0].slices[1].offset], 0);
    alone.step({false, true});
    // The first step of AdamW moves by the learning rate, whatever the gradient is. Bias correction counts from 1 for
    // each parameter.
    EXPECT_FLOAT_EQ(alone.value(1), 1 - 0.1F);
    EXPECT_FLOAT_EQ(alone.value(0), 1 - 0.1F);
  });
}

TEST(Updater, Bf16ParametersFollowTheirMaster) {
  on_ranks(1, [](Communicator& comm) {
    Alone alone(comm, {{.name = "w", .shape = {4}, .dtype = DType::kBFloat16}}, sgd());
    for (int step = 0; step < 4; ++step) alone.step({true}, 1, 1e-3);  // each far below 2^-8, a bf16 step
    EXPECT_FLOAT_EQ(alone.on_device(alone.state.arrays().master)[0], 1 - 4e-3F);
    EXPECT_EQ(alone.value(0), to_float(to_bfloat16(alone.on_device(alone.state.arrays().master)[0])));
    EXPECT_NE(alone.value(0), 1) << "small steps add up";
  });
}

TEST(Updater, RangeIsMadeOfItsShards) {
  std::vector<float> whole;
  const std::vector<ParamSpec> specs{{.name = "a", .shape = {5, 9}}, {.name = "b", .shape = {70}}};
  for (const int stage : {0, 1}) {
    on_ranks(3, [&](Communicator& comm) {
      Ledger ledger;
      const auto units = make_units(specs, {});
      const AttachOptions options{.threads = 2};
      const auto rule = make_update_rule(options.optimizer);
      ShardedState state(units, place(stage, Reduce::kAuto, 1), moments(2), comm, ledger);
      Updater updater(state, *rule, specs, options, comm, ledger, comm);
      std::vector<float> ones(static_cast<std::size_t>(units[0].numel), 1.0F);
      state.contents().load(0, reinterpret_cast<const std::byte*>(ones.data()), DType::kFloat32);
      const Shard range = state.update_range(0);
      std::vector<float> gradient(static_cast<std::size_t>(range.numel));
      for (std::int64_t i = 0; i < range.numel; ++i)
        gradient[static_cast<std::size_t>(i)] = noise(1, 2, static_cast<std::uint64_t>(range.offset + i));
      updater.begin_step({true, true}, std::array{0}, 1, {.lr = 0.1});
      updater.enqueue(0, reinterpret_cast<const std::byte*>(gradient.data()), DType::kFloat32);
      updater.complete(0);
      const auto* updated =
          reinterpret_cast<const float*>(stage == 0 ? state.whole_parameter(0) : state.parameter_shard(0).data());
      if (stage == 0 && comm.rank() == 0) whole.assign(updated, updated + units[0].numel);
      if (stage == 1) {
        for (std::int64_t i = 0; i < range.numel && range.offset + i < units[0].numel; ++i) {
          EXPECT_EQ(updated[i], whole[static_cast<std::size_t>(range.offset + i)]);
        }
      }
    });
  }
}

}  // namespace
}  // namespace zero
