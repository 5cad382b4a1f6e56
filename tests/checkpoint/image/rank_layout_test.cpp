#include "zero/checkpoint/image/rank_layout.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/safetensors_header.h"
#include "zero/plan/units/partition.h"

#include "tests/engine/scripted_model.h"

namespace zero {
namespace {

const std::vector<std::string> kStates{"parameter", "exp_avg", "exp_avg_sq"};

TEST(RankLayout, RanksTogetherCoverEveryStateOnce) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto specs = small_specs(dtype);
    const auto units = make_units(specs, {});
    for (int world = 1; world <= 5; ++world) {
      Manifest manifest{.states = kStates};
      for (const ParamSpec& spec : specs)
        manifest.tensors.push_back({.name = spec.name,
                                    .shape = spec.shape,
                                    .dtype = spec.trainable ? DType::kFloat32 : spec.dtype,
                                    .trainable = spec.trainable});
      for (int rank = 0; rank < world; ++rank) {
        const RankLayout layout = lay_out_rank(specs, units, SavedStates(kStates, {}), {.shard = world}, rank, {});
        manifest.files.push_back({.name = rank_file_name(rank),
                                  .content = {.size_bytes = layout.size_bytes, .sums = {0}},
                                  .slices = layout.slices,
                                  .extras = layout.extras});
      }
      EXPECT_EQ(parse_manifest(to_text(manifest), "m"), manifest);  // also checks that the slices cover all tensors
    }
  }
}

TEST(RankLayout, HeaderIsThatOfSafetensors) {
  const auto specs = small_specs(DType::kBFloat16);
  const auto units = make_units(specs, {});
  const std::vector<Extra> extras{
      {.name = "run/losses", .dtype = ElementType::kF32, .shape = {2}, .bytes = std::vector<std::byte>(8)}};
  const RankLayout layout = lay_out_rank(specs, units, SavedStates(kStates, {}), {.shard = 2}, 1, extras);
  std::string file = layout.header;
  file.resize(static_cast<std::size_t>(layout.size_bytes));
  const auto header = parse_safetensors_header(std::as_bytes(std::span(file)), std::ssize(file), "f");
  EXPECT_EQ(header.entries.size(), layout.slices.size() + 1);
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    EXPECT_EQ(header.entries[i].begin + header.buffer_begin, layout.slices[i].offset);
    EXPECT_EQ(header.entries[i].numel(), layout.slices[i].numel);
  }
  EXPECT_EQ(header.entries.back().name, "run/losses");
}

TEST(RankLayout, FrozenParametersHaveNoMoments) {
  const auto specs = small_specs(DType::kBFloat16);
  const RankLayout layout = lay_out_rank(specs, make_units(specs, {}), SavedStates(kStates, {}), {}, 0, {});
  int found = 0;
  for (const SavedSlice& slice : layout.slices) {
    if (specs[static_cast<std::size_t>(slice.tensor)].trainable) continue;
    EXPECT_EQ(slice.state, 0);
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST(RankLayout, RefusesUnstorableNames) {
  std::vector<ParamSpec> specs{{.name = std::string(600, 'x'), .shape = {3}}};
  EXPECT_THROW(lay_out_rank(specs, make_units(specs, {}), SavedStates(kStates, {}), {}, 0, {}), ConfigError);
}

}  // namespace
}  // namespace zero
