#include "app/cli/bench/parts/update_probe.h"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace zero::cli {
namespace {

constexpr std::int64_t kProbed = 4 * kCodeBlock;

// Arrays whose elements are all 1 at first. The gradient's are 3.
template <typename Gradient>
struct ProbedMemory {
  std::vector<float> parameter = std::vector<float>(kProbed, 1);
  std::vector<Gradient> gradient = std::vector<Gradient>(kProbed, 3);
  std::vector<std::uint16_t> copy = std::vector<std::uint16_t>(kProbed, 1);
  std::array<std::vector<float>, 3> states{parameter, parameter, parameter};
  std::array<std::vector<std::uint8_t>, 2> codes{std::vector<std::uint8_t>(kProbed, 1),
                                                 std::vector<std::uint8_t>(kProbed, 1)};
  std::array<std::vector<float>, 2> scales{std::vector<float>(kProbed / kCodeBlock, 1),
                                           std::vector<float>(kProbed / kCodeBlock, 1)};

  UpdateSpan span() {
    return {.parameter = parameter.data(),
            .gradient = reinterpret_cast<const std::byte*>(gradient.data()),
            .gradient_dtype = sizeof(Gradient) == 4 ? DType::kFloat32 : DType::kBFloat16,
            .numel = kProbed};
  }
};

template <typename Values>
bool all_changed(const Values& values) {
  return std::ranges::count(values, typename Values::value_type{1}) == 0;
}
template <typename Values>
bool none_changed(const Values& values) {
  return std::ranges::count(values, typename Values::value_type{1}) == std::ssize(values);
}

TEST(UpdateProbe, WritesTheElementsOfAnUpdate) {
  ProbedMemory<float> memory;
  UpdateSpan span = memory.span();
  span.states[0] = memory.states[0].data();
  span.states[3] = memory.states[1].data();  // like the average, after states that the pass skips
  probe_update(span);
  EXPECT_TRUE(all_changed(memory.parameter) && all_changed(memory.states[0]) && all_changed(memory.states[1]));
  EXPECT_TRUE(none_changed(memory.states[2]) && none_changed(memory.copy));
  EXPECT_EQ(memory.gradient, std::vector<float>(kProbed, 3));
}

TEST(UpdateProbe, WritesRoundedParametersForEitherType) {
  ProbedMemory<float> wide;  // completed directions are fp32
  UpdateSpan span = wide.span();
  span.low_precision = reinterpret_cast<std::byte*>(wide.copy.data());
  probe_update(span);
  EXPECT_TRUE(all_changed(wide.copy));
  ProbedMemory<std::uint16_t> half;
  span = half.span();
  span.low_precision = reinterpret_cast<std::byte*>(half.copy.data());
  probe_update(span);
  EXPECT_TRUE(all_changed(half.copy) && all_changed(half.parameter));
}

TEST(UpdateProbe, WritesCodesScalesAndFp32) {
  for (const bool averaged : {false, true}) {
    ProbedMemory<std::uint16_t> memory;
    UpdateSpan span = memory.span();
    span.low_precision = reinterpret_cast<std::byte*>(memory.copy.data());
    for (std::size_t i = 0; i < 2; ++i) span.coded[i] = {memory.codes[i].data(), memory.scales[i].data()};
    if (averaged) span.states[2] = memory.states[2].data();
    probe_update(span);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(all_changed(memory.codes[i]) && all_changed(memory.scales[i]));
    EXPECT_TRUE(all_changed(memory.parameter) && all_changed(memory.copy));
    EXPECT_EQ(all_changed(memory.states[2]), averaged);
  }
}

TEST(UpdateProbe, DirectionDoesNotReadTheParameter) {
  const auto directions = [](float before) {
    ProbedMemory<float> memory;
    memory.parameter.assign(kProbed, before);
    UpdateSpan span = memory.span();
    span.states[0] = memory.states[0].data();
    probe_direction(span);
    EXPECT_TRUE(all_changed(memory.states[0]));
    return memory.parameter;
  };
  EXPECT_EQ(directions(1), directions(-7));
}

TEST(UpdateProbe, OfReadsWritesNothing) {
  ProbedMemory<std::uint16_t> memory;
  UpdateSpan span = memory.span();
  for (std::size_t i = 0; i < 2; ++i) span.states[i] = memory.states[i].data();
  for (std::size_t num_arrays = 1; num_arrays <= 4; ++num_arrays) probe_reads(span, num_arrays);
  EXPECT_TRUE(none_changed(memory.parameter) && none_changed(memory.states[0]) && none_changed(memory.states[1]));
  EXPECT_EQ(memory.gradient, std::vector<std::uint16_t>(kProbed, 3));
}

}  // namespace
}  // namespace zero::cli
