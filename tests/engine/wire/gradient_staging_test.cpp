#include "zero/engine/wire/gradient_staging.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

// fc1's gradients may complete far apart, with other units' gradients between them. Gradients of h.0 and h.1 complete
// block by block.
TEST(GradientStaging, MinimumHoldsModuleAndLargestUnit) {
  const std::vector<ParamSpec> specs{{.name = "fc1.w", .shape = {32}}, {.name = "fc1.b", .shape = {32}},
                                     {.name = "h.0.w", .shape = {64}}, {.name = "h.0.b", .shape = {64}},
                                     {.name = "h.1.w", .shape = {64}}, {.name = "h.1.b", .shape = {64}}};
  const auto limit = [&](const std::vector<std::string>& units) {
    return staging_limit(make_units(specs, units), 1, /*min_budget=*/true);
  };
  EXPECT_EQ(limit({"fc1", "h.0", "h.1"}), (64 + 128) * 4);
  EXPECT_EQ(limit({"h.0", "h.1"}), (64 + 128) * 4) << "without a name it is the root unit";
}

// A block with two dtypes has two units, and both fill at the same time.
TEST(GradientStaging, MinimumHoldsEveryBlockDtype) {
  const std::vector<ParamSpec> specs{{.name = "h.0.w", .shape = {64}, .dtype = DType::kBFloat16},
                                     {.name = "h.0.norm", .shape = {16}},
                                     {.name = "h.0.b", .shape = {16}},
                                     {.name = "h.1.w", .shape = {64}, .dtype = DType::kBFloat16},
                                     {.name = "h.1.norm", .shape = {16}},
                                     {.name = "h.1.b", .shape = {16}}};
  const auto units = make_units(specs, {});
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(staging_limit(units, 1, /*min_budget=*/true), 64 * 2 + 2 * 16 * 4)
      << "one block, without a part of another";
}

}  // namespace
}  // namespace zero
