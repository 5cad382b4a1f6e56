#include "zero/torch/module/module_names.h"

#include <gtest/gtest.h>

#include "zero/torch/engine_control.h"

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedBlockImpl;
using tests::TiedNet;
using Names = std::vector<std::string>;

bool is_block(const torch::nn::Module& module) {
  return module.as<TiedBlockImpl>() != nullptr;
}

TEST(ModuleNames, PredicateFindsOutermostFirst) {
  const TiedNet net;
  EXPECT_EQ(module_names_if(net, is_block), (Names{"blocks.0", "blocks.1", "blocks.2"}));
  EXPECT_EQ(module_names_if(net, [](const torch::nn::Module&) { return true; }), (Names{"table", "blocks"}));
}

TEST(ModuleNames, FindsGivenModules) {
  TiedNet net;
  EXPECT_EQ(module_names(net, {*net.table, net.block(1)}), (Names{"table", "blocks.1"}));
  const torch::nn::Linear stranger(2, 2);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { module_names(net, {*stranger}); }), "not inside"));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { module_names(net, {}); }), "no module is given"));
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { module_names_if(net, [](const torch::nn::Module&) { return false; }); }),
           "the predicate selects no module"));
}

TEST(ModuleNames, AreUnitsOfAnEngine) {
  TiedNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    const Engine engine =
        attach(net, ranks, {.stage = 3, .units = module_names(net, {*net.block(0).up, *net.block(0).down})});
    Names names;
    for (const Unit& unit : engine.control().units()) names.push_back(unit.name);
    EXPECT_NE(std::ranges::find(names, "blocks.0.up"), names.end());
    EXPECT_NE(std::ranges::find(names, "blocks.0.down"), names.end());
  });
}

}  // namespace
}  // namespace zero
