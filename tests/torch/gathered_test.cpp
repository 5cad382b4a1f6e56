// Reads and writes of parameters outside operators, and writes through operators.
#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::TiedNet;

using Named = std::map<std::string, torch::Tensor>;

Named parameters_of(Engine& engine, bool full_precision) {
  Named values;
  engine.for_each_parameter([&](const std::string& name, const torch::Tensor& value) { values[name] = value.clone(); },
                            full_precision);
  return values;
}

// Runs body(net, engine, rank) on two ranks for every placement and both types.
void at_every_placement(const std::function<void(TiedNet&, Engine&, int)>& body) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const AttachOptions& options : all_stages({.clip = 0.5, .dtype = dtype})) {
      SCOPED_TRACE(tests::placement_of(options) + (dtype == DType::kFloat32 ? ", fp32" : ", bf16"));
      auto nets = tests::tied_nets(2);
      tests::on_every_rank(2, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(net, ranks, options);
        body(net, engine, ranks.rank());
      });
    }
  }
}

void train_a_step(TiedNet& net, Engine& engine, int step, int rank) {
  loss_of(net, step, 0, rank).backward();
  engine.step(1e-2);
}

// Numbers that bf16 holds exactly, written without an operator.
void fill_raw(const torch::Tensor& tensor, float base) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const float value = base + 0.125f * static_cast<float>(i % 8);
    auto* raw = static_cast<std::byte*>(tensor.mutable_data_ptr());
    if (tensor.scalar_type() == torch::kFloat32) {
      std::memcpy(raw + i * 4, &value, 4);
    } else {
      const BFloat16Bits bits = to_bfloat16(value);
      std::memcpy(raw + i * 2, &bits, 2);
    }
  }
}

void expect_filled(const torch::Tensor& values, float base, const std::string& name) {
  const torch::Tensor flat = values.reshape({-1});
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    ASSERT_EQ(flat[i].item().toFloat(), base + 0.125f * static_cast<float>(i % 8)) << name << " at " << i;
  }
}

TEST(Gathered, RawPointersReadWholeParameters) {
  at_every_placement([](TiedNet& net, Engine& engine, int rank) {
    train_a_step(net, engine, 0, rank);
    const Named expected = parameters_of(engine, false);
    const auto scope = engine.gathered(net);
    for (const auto& item : net.named_parameters()) {
      const void* raw = item.value().const_data_ptr();
      ASSERT_NE(raw, nullptr) << item.key();
      EXPECT_EQ(std::memcmp(raw, expected.at(item.key()).const_data_ptr(), item.value().nbytes()), 0) << item.key();
    }
  });
}

// Raw writes inside the scope persist.
TEST(Gathered, RawWritesReachTheMaster) {
  at_every_placement([](TiedNet& net, Engine& engine, int rank) {
    train_a_step(net, engine, 0, rank);
    {
      const auto scope = engine.gathered(net);
      for (const torch::Tensor& parameter : net.parameters()) fill_raw(parameter, 1);
    }
    for (const auto& [name, value] : parameters_of(engine, true)) expect_filled(value, 1, name);
    const torch::NoGradGuard evaluation;
    EXPECT_EQ((net.scale * 1).item().toFloat(), 1.0f) << "the next operator sees it";
  });
}

TEST(Gathered, ReadingLeavesTheMastersFullPrecision) {
  at_every_placement([](TiedNet& net, Engine& engine, int rank) {
    train_a_step(net, engine, 0, rank);
    const Named before = parameters_of(engine, true);
    { const auto scope = engine.gathered(net); }
    for (const auto& [name, value] : parameters_of(engine, true))
      EXPECT_TRUE(tests::same_bits(before.at(name), value)) << name;
  });
}

TEST(Gathered, TheSourceRanksWritesCount) {
  at_every_placement([](TiedNet& net, Engine& engine, int rank) {
    {
      const auto scope = engine.gathered(net, /*source_rank=*/1);
      for (const torch::Tensor& parameter : net.parameters()) fill_raw(parameter, static_cast<float>(rank + 1));
    }
    for (const auto& [name, value] : parameters_of(engine, true)) expect_filled(value, 2, name);
  });
}

TEST(Gathered, SubmoduleGathersOwnUnitsOnly) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    const auto scope = engine.gathered(*net.blocks[1]);
    EXPECT_NE(net.block(1).up->weight.const_data_ptr(), nullptr);
    EXPECT_THROW(net.block(0).up->weight.const_data_ptr(), c10::Error);
    EXPECT_THROW(net.table->weight.const_data_ptr(), c10::Error);
  });
}

TEST(Gathered, RefusesForeignModule) {
  TiedNet net;
  const torch::nn::Linear stranger(3, 3);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { const auto scope = engine.gathered(*stranger); }),
                     "not the attached module"));
  });
}

// Every rank leaves the scope by an exception. The source rank's writes count, and training goes on.
TEST(Gathered, AnExceptionEndsItLater) {
  at_every_placement([](TiedNet& net, Engine& engine, int rank) {
    const auto leave = [&] {
      const auto outer = engine.gathered(*net.blocks[0]);
      const auto scope = engine.gathered(net, /*source_rank=*/1);
      for (const torch::Tensor& parameter : net.parameters()) fill_raw(parameter, static_cast<float>(rank + 1));
      throw std::runtime_error("a full disk");
    };
    EXPECT_THROW(leave(), std::runtime_error);
    const Named written = parameters_of(engine, true);
    for (const auto& [name, value] : written) expect_filled(value, 2, name);
    train_a_step(net, engine, 0, rank);
    EXPECT_FALSE(tests::same_bits(parameters_of(engine, true).at("scale"), written.at("scale")));
  });
}

// After the scope step() works.
TEST(Gathered, StepInsideScopeIsRefused) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    {
      const auto scope = engine.gathered(net);
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "gathered() scope"));
    }
    train_a_step(net, engine, 0, ranks.rank());
    EXPECT_EQ(engine.report().skipped_steps, 0);
  });
}

// ---- writes through operators --------------------------------------------------------------------------------------

struct Write {
  const char* name;
  std::function<void(TiedNet&)> apply;
};

const std::vector<Write>& writes() {
  static const std::vector<Write> all{
      {"an initialiser", [](TiedNet& net) { torch::nn::init::constant_(net.block(0).up->weight, 0.5); }},
      {"copy_", [](TiedNet& net) { net.block(1).down->bias.copy_(torch::arange(6) * 0.25); }},
      {"fill_ of a view", [](TiedNet& net) { net.table->weight.select(0, 3).fill_(-2); }},
      {"mul_ of a detached alias", [](TiedNet& net) { net.block(2).up->bias.detach().mul_(4); }},
      {"zero_ of .data()", [](TiedNet& net) { net.block(2).norm->weight.data().zero_(); }},
      {"an out= argument", [](TiedNet& net) { torch::mul_out(net.scale, torch::tensor(3.0), torch::tensor(0.5)); }},
      {"a list of tensors",
       [](TiedNet& net) {
         torch::_foreach_add_({net.block(0).norm->bias, net.block(1).norm->bias}, 1);
       }},
  };
  return all;
}

// The writes persist.
TEST(InPlaceWrites, ReachTheMasterAtEveryPlacement) {
  at_every_placement([](TiedNet& net, Engine& engine, int) {
    const torch::NoGradGuard no_gradients;
    // The same writes on a module that is not attached.
    TiedNet expected;
    const Named before = parameters_of(engine, true);
    for (auto& item : expected.named_parameters()) item.value().copy_(before.at(item.key()));
    for (const Write& write : writes()) {
      write.apply(net);
      write.apply(expected);
    }
    const Named after = parameters_of(engine, true);
    for (const auto& item : expected.named_parameters()) {
      if (net.scale.scalar_type() == torch::kFloat32) {
        EXPECT_TRUE(tests::same_bits(after.at(item.key()), item.value())) << item.key();
      } else {  // the write read a rounded parameter, and its result was rounded
        EXPECT_TRUE(torch::allclose(after.at(item.key()), item.value(), 1e-2, 1e-6)) << item.key();
      }
    }
    EXPECT_EQ(after.at("table.weight")[3][2].item().toFloat(), -2.0f);
    EXPECT_EQ(after.at("blocks.2.norm.weight").abs().sum().item().toFloat(), 0.0f);
    EXPECT_EQ(after.at("scale").item().toFloat(), 1.5f);
  });
}

TEST(InPlaceWrites, BetweenStepsKeepStagesEqual) {
  const auto make = [] {
    auto net = std::make_shared<TiedNet>();
    return tests::Subject{net, [net](int step, int micro, int rank) {
                            if (step > 0) {
                              const torch::NoGradGuard no_gradients;
                              net->block(1).up->weight.mul_(0.75);  // a usual constraint on weights
                              net->table->weight.clamp_(-1, 1);
                            }
                            return loss_of(*net, step, micro, rank);
                          }};
  };
  std::vector<tests::RunResult> runs;
  for (const AttachOptions& options : all_stages({.clip = 0.5})) {
    runs.push_back(tests::train(2, 4, options, make));
    EXPECT_EQ(runs.front().loss_bits, runs.back().loss_bits) << tests::placement_of(options);
    EXPECT_TRUE(tests::same_bits(runs.front().parameters, runs.back().parameters)) << tests::placement_of(options);
  }
}

}  // namespace
}  // namespace zero
