#include "zero/plan/units/unit.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/units/partition.h"

#include "tests/plan/gpt_like.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

std::vector<std::string> names_of(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return names;
}

ParamSpec param(const std::string& name, std::vector<std::int64_t> shape = {4}, DType dtype = DType::kFloat32,
                bool trainable = true) {
  return {.name = name, .shape = std::move(shape), .dtype = dtype, .trainable = trainable};
}

using Names = std::vector<std::string>;

// Each repeated block is a unit, and so is each embedding.
TEST(Unit, BlocksAndEmbeddingsAreUnits) {
  EXPECT_EQ(names_of(gpt_units({.layers = 3})), (Names{"wte.weight", "wpe.weight", "h.0", "h.1", "h.2", "root"}));
}

TEST(Unit, OnlyTheOutermostRepetitionCounts) {
  const auto units = make_units({param("net.0.heads.0.w"), param("net.0.heads.1.w"), param("net.1.heads.0.w")}, {});
  EXPECT_EQ(names_of(units), (Names{"net.0", "net.1"}));
}

TEST(Unit, TrailingNumberRepeatsNothing) {
  EXPECT_EQ(names_of(make_units({param("weights.0"), param("weights.1")}, {})), Names{"root"});
}

TEST(Unit, UnblockedParametersGoToRoot) {
  const auto units = make_units({param("first.weight"), param("h.0.w"), param("last.weight")}, {});
  EXPECT_EQ(names_of(units), (Names{"root", "h.0"}));
  ASSERT_EQ(units[0].slices.size(), 2u);
  EXPECT_EQ(units[0].slices[1].param, 2);
}

TEST(Unit, TiedParametersArePlannedOnce) {
  auto specs = gpt_specs({});
  ASSERT_EQ(specs[0].aliases, Names{"lm_head.weight"});
  std::int64_t total = 0;
  for (const Unit& unit : make_units(specs, {})) {
    for (const Slice& slice : unit.slices) total += slice.numel;
  }
  std::int64_t wanted = 0;
  for (const ParamSpec& spec : specs) wanted += spec.numel();
  EXPECT_EQ(total, wanted);
}

TEST(Unit, AlignsParametersAndShardsForDevice) {
  for (const std::int64_t align : {kHostAlignBytes, kGpuAlignBytes}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const std::vector<ParamSpec> specs{param("h.0.w", {7, 5}, dtype), param("h.0.b", {3}, dtype),
                                         param("h.0.c", {3}, dtype), param("h.1.w", {1}, dtype)};
      const auto size = static_cast<std::int64_t>(size_of(dtype));
      for (const std::int64_t grain : {1, 256}) {
        for (const Unit& unit : make_units(specs, {}, grain, {}, align)) {
          std::int64_t end = 0;
          for (const Slice& slice : unit.slices) {
            EXPECT_EQ(slice.offset * size % align, 0);
            EXPECT_EQ(slice.offset % grain, 0);
            EXPECT_LT(slice.offset - end, std::max(align / size, grain)) << "the gap is no larger than alignment needs";
            end = slice.offset + slice.numel;
          }
          for (const int world : {1, 2, 3, 7}) EXPECT_EQ(shard_numel(unit, world) * size % align, 0);
        }
      }
    }
  }
}

TEST(Unit, FrozenParametersFormOwnUnits) {
  const auto units = make_units({param("h.0.w"), param("h.0.frozen", {4}, DType::kFloat32, false), param("h.0.b")}, {});
  ASSERT_EQ(names_of(units), (Names{"h.0", "h.0 (frozen fp32)"}));
  EXPECT_TRUE(units[0].trainable);
  EXPECT_FALSE(units[1].trainable);
  EXPECT_EQ(units[0].slices.size(), 2u);
}

TEST(Unit, UnitHasOwnNameAndDtype) {
  const auto units =
      make_units({param("h.0.w", {4}, DType::kBFloat16), param("h.0.norm"),
                  param("h.0.a", {4}, DType::kBFloat16, false), param("h.0.b", {4}, DType::kFloat32, false)},
                 {});
  EXPECT_EQ(names_of(units), (Names{"h.0", "h.0 (fp32)", "h.0 (frozen bf16)", "h.0 (frozen fp32)"}));
  EXPECT_EQ(units[0].dtype, DType::kBFloat16);
  EXPECT_EQ(units[1].dtype, DType::kFloat32);
}

TEST(Unit, LastCharacterDoesNotMakeBlocks) {
  const auto units = make_units(
      {param("fc1.w"), param("fc1.b"), param("h.3.w", {4}, DType::kBFloat16), param("h.3.norm"), param("x.y.w")},
      {"fc1", "h.3"});
  ASSERT_EQ(names_of(units), (Names{"fc1", "h.3", "h.3 (fp32)", "root"}));
  EXPECT_FALSE(units[0].repeated) << "a module whose name ends in a number is one of a kind";
  EXPECT_TRUE(units[1].repeated);
  EXPECT_TRUE(units[2].repeated) << "another dtype of the same block";
  EXPECT_FALSE(units[3].repeated);
  EXPECT_EQ(units[2].first_unit_of_block, 1);
  for (const int alone : {0, 1, 3}) EXPECT_EQ(units[static_cast<std::size_t>(alone)].first_unit_of_block, alone);

  const auto found = make_units({param("emb.0", {4}), param("h.0.w"), param("h.0.b"), param("head.w")}, {});
  ASSERT_EQ(names_of(found), (Names{"root", "h.0"}));
  EXPECT_FALSE(found[0].repeated);
  EXPECT_TRUE(found[1].repeated);
}

TEST(Unit, FrozenFirstUnitKeepsPlainName) {
  const auto units = make_units({param("a", {4}, DType::kFloat32, false), param("b")}, {});
  EXPECT_EQ(names_of(units), (Names{"root", "root (fp32)"}));
}

TEST(Unit, TheUsersPrefixesDecide) {
  const std::vector<ParamSpec> specs{param("encoder.h.0.w"), param("encoder.h.1.w"), param("decoder.w"),
                                     param("head.w")};
  EXPECT_EQ(names_of(make_units(specs, {"encoder", "decoder"})), (Names{"encoder", "decoder", "root"}));
}

TEST(Unit, TheLongestPrefixWins) {
  const std::vector<ParamSpec> specs{param("encoder.h.0.w"), param("encoder.h.1.w")};
  EXPECT_EQ(names_of(make_units(specs, {"encoder", "encoder.h.1"})), (Names{"encoder", "encoder.h.1"}));
  EXPECT_EQ(names_of(make_units(specs, {"encoder.h.1", "encoder"})), (Names{"encoder", "encoder.h.1"}));
}

TEST(Unit, PrefixIsWholeModuleName) {
  EXPECT_THROW(make_units({param("encoder2.w")}, {"encoder"}), ConfigError);
}

TEST(Unit, ATiedPrefixNamesItsUnit) {
  const std::vector<ParamSpec> specs{
      {.name = "table.weight", .shape = {8, 4}, .own_unit = true, .aliases = {"head.weight"}},
      {.name = "body.weight", .shape = {4, 4}}};
  const auto refusal = [&](const std::vector<std::string>& prefixes) {
    return message_of<ConfigError>([&] { make_units(specs, prefixes); });
  };
  EXPECT_TRUE(says(refusal({"head"}), "units = head: head.weight is tied to table.weight, which unit root holds"));
  EXPECT_TRUE(says(refusal({"table", "head"}), "head.weight is tied to table.weight, which unit table holds"));
}

TEST(Unit, AnUnknownPrefixIsNamed) {
  try {
    make_units(gpt_specs({}), {"h.0", "transformer"});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.key(), "units");
    EXPECT_NE(std::string(error.what()).find("transformer"), std::string::npos) << error.what();
  }
}

TEST(Unit, AModuleWithoutParametersHasNone) {
  EXPECT_TRUE(make_units({}, {}).empty());
  EXPECT_TRUE(addresses_of({}, 0).empty());
}

TEST(Unit, EmptyParameterHasEmptySlice) {
  const auto units = make_units({param("a", {3}), param("empty", {0, 5}), param("b", {2})}, {});
  ASSERT_EQ(units.size(), 1u);
  ASSERT_EQ(units[0].slices.size(), 3u);
  EXPECT_EQ(units[0].slices[1], (Slice{1, 16, 0}));
  EXPECT_EQ(units[0].slices[2], (Slice{2, 16, 2}));
  EXPECT_EQ(units[0].numel, 18);
}

TEST(Unit, AScalarHasOneElement) {
  const auto units = make_units({param("temperature", {})}, {});
  EXPECT_EQ(units[0].slices[0], (Slice{0, 0, 1}));
  EXPECT_EQ(units[0].numel, 1);
}

// 64 bytes of the parameter's type.
TEST(Unit, AlignsSlicesTo64Bytes) {
  const auto fp32 = make_units({param("a", {17}), param("b", {1})}, {});
  EXPECT_EQ(fp32[0].slices[1].offset, 32);
  const auto bf16 = make_units({param("a", {17}, DType::kBFloat16), param("b", {1}, DType::kBFloat16)}, {});
  EXPECT_EQ(bf16[0].slices[1].offset, 32);
  const auto small = make_units({param("a", {2}, DType::kBFloat16), param("b", {1}, DType::kBFloat16)}, {});
  EXPECT_EQ(small[0].slices[1].offset, 32);
}

TEST(Unit, TrainedSlicesBeginAtOptimizerGrain) {
  const auto units = make_units({param("a", {300}), param("b", {1}), param("f", {300}, DType::kFloat32, false),
                                 param("g", {1}, DType::kFloat32, false)},
                                {}, /*grain=*/256);
  ASSERT_EQ(units.size(), 2);
  EXPECT_EQ(units[0].slices[1].offset, 512);
  EXPECT_EQ(units[0].numel, 513);
  EXPECT_EQ(alignment_numel(units[0]), 256);
  EXPECT_EQ(units[1].slices[1].offset, 304) << "frozen";
}

// Matrices that are updated as wholes form their own units.
TEST(Unit, WholeMatricesFormOwnUnits) {
  const MatrixChoice weights{.is_matrix = [](const ParamSpec& spec) { return spec.name.ends_with("weight"); }};
  const auto units = make_units({param("h.0.bias", {3}), param("h.0.weight", {3, 4}), param("h.1.weight", {2, 5, 3}),
                                 param("h.1.bias", {3}), param("h.1.frozen.weight", {2, 2}, DType::kFloat32, false)},
                                {}, /*grain=*/1, weights);
  ASSERT_EQ(units.size(), 5);
  EXPECT_EQ(units[0].name, "h.0");
  EXPECT_FALSE(units[0].matrices());
  EXPECT_EQ(units[1].name, "h.0 (matrices)");
  EXPECT_TRUE(units[1].matrices());
  EXPECT_EQ(units[1].first_unit_of_block, 0) << "all gradients of a block are ready together";
  EXPECT_EQ(units[1].slices[0].rows, 3);
  EXPECT_EQ(units[1].slices[0].columns(), 4);
  EXPECT_EQ(units[2].name, "h.1 (matrices)");
  EXPECT_EQ(units[2].slices[0].columns(), 15) << "all other dimensions";
  EXPECT_EQ(units[3].name, "h.1");
  EXPECT_EQ(units[3].first_unit_of_block, 2);
  EXPECT_FALSE(units[4].matrices()) << "frozen";
  EXPECT_EQ(
      make_units({param("a.weight", {2, 2}), param("b.weight", {2, 2}, DType::kBFloat16)}, {}, 1, weights)[1].name,
      "root (bf16 matrices)");
}

// A parameter in two units is a bug.
TEST(Unit, SharedParameterIsOurBug) {
  auto units = make_units({param("a"), param("h.0.b")}, {});
  units[1].slices[0].param = 0;
  EXPECT_THROW(addresses_of(units, 1), InternalError);
  EXPECT_THROW(addresses_of({}, 1), InternalError) << "a parameter in none";
}

RC_GTEST_PROP(Unit, EveryParameterHasOneSlice, ()) {
  std::vector<ParamSpec> specs;
  const int count = *rc::gen::inRange(0, 40);
  for (int i = 0; i < count; ++i) {
    const auto block = *rc::gen::element<std::string>("", "h.0.", "h.1.", "h.2.mlp.", "enc.0.", "enc.");
    specs.push_back({.name = block + "p" + std::to_string(i),
                     .shape = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 7)),
                     .dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16),
                     .trainable = *rc::gen::arbitrary<bool>(),
                     .own_unit = *rc::gen::weightedElement<bool>({{5, false}, {1, true}})});
    if (specs.back().shape.size() > 4) specs.back().shape.resize(4);
  }
  const auto units = make_units(specs, {});
  const auto addresses = addresses_of(units, specs.size());
  std::set<std::string> names;
  for (std::size_t index = 0; index < units.size(); ++index) {
    const Unit& unit = units[index];
    RC_ASSERT(unit.index == static_cast<int>(index));
    RC_ASSERT(names.insert(unit.name).second);
    std::int64_t end = 0;
    for (const Slice& slice : unit.slices) {
      const ParamSpec& spec = specs[static_cast<std::size_t>(slice.param)];
      RC_ASSERT(slice.numel == spec.numel());
      RC_ASSERT(unit.dtype == spec.dtype);
      RC_ASSERT(unit.trainable == spec.trainable);
      RC_ASSERT(slice.offset >= end);
      RC_ASSERT(slice.offset * static_cast<std::int64_t>(size_of(unit.dtype)) % 64 == 0);
      end = slice.offset + slice.numel;
    }
    RC_ASSERT(unit.numel == end);
  }
  for (std::size_t param = 0; param < specs.size(); ++param) {
    const Unit& unit = units[static_cast<std::size_t>(addresses[param].unit)];
    RC_ASSERT(unit.slices[static_cast<std::size_t>(addresses[param].slice)].param == static_cast<int>(param));
  }
}

}  // namespace
}  // namespace zero
