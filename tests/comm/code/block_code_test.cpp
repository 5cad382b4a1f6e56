#include "zero/comm/code/block_code.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <rapidcheck.h>

namespace zero {
namespace {

constexpr WireCodec kCodecs[] = {WireCodec::kInt8, WireCodec::kInt4};

int most_of(WireCodec codec) {
  return codec == WireCodec::kInt8 ? 127 : 7;
}

std::vector<std::byte> encoded(WireCodec codec, const std::vector<float>& values, const WireRounding& rounding = {}) {
  const std::int64_t numel = std::ssize(values);
  std::vector<std::byte> wire(static_cast<std::size_t>(wire_bytes(codec, numel, DType::kFloat32)));
  encode_for_wire(codec, {reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, numel}, rounding,
                  wire.data());
  return wire;
}

std::vector<float> decoded(WireCodec codec, const std::vector<std::byte>& wire, std::size_t numel) {
  std::vector<float> values(numel, -1);
  decode_from_wire(codec, wire.data(), std::ssize(values), reinterpret_cast<std::byte*>(values.data()),
                   DType::kFloat32);
  return values;
}

std::vector<float> sent(WireCodec codec, const std::vector<float>& values, const WireRounding& rounding = {}) {
  return decoded(codec, encoded(codec, values, rounding), values.size());
}

// The step of the block that contains element i.
float step_of(WireCodec codec, const std::vector<float>& values, std::size_t i) {
  const std::size_t block = i / kWireBlock * kWireBlock;
  float largest = 0;
  for (std::size_t j = block; j < std::min(values.size(), block + kWireBlock); ++j)
    largest = std::max(largest, std::abs(values[j]));
  return largest / static_cast<float>(most_of(codec));
}

// Magnitudes over many powers of two, so blocks have large and small elements.
std::vector<float> some_values(std::size_t numel, std::uint64_t seed) {
  std::vector<float> values(numel);
  for (std::size_t i = 0; i < numel; ++i) {
    const std::uint64_t h = mixed(seed, i);
    const float sign = (h & 1) != 0 ? 1.0F : -1.0F;
    values[i] =
        sign * std::ldexp(static_cast<float>((h >> 8) & 0xffff) / 65536.0F, static_cast<int>((h >> 40) % 20) - 10);
  }
  return values;
}

template <class Body>
void on_each_target(Body body) {
  const std::int64_t targets = HWY_TARGETS & hwy::SupportedTargets();
  for (std::int64_t rest = targets; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    hwy::GetChosenTarget().DeInit();
    body(hwy::TargetName(rest & -rest));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

// Rounding to nearest errs by at most half a step, so by less than one.
TEST(BlockCode, ErrorStaysBelowOneStep) {
  rc::check([] {
    const auto codec = *rc::gen::elementOf(std::vector<WireCodec>(std::begin(kCodecs), std::end(kCodecs)));
    const auto values = some_values(*rc::gen::inRange<std::size_t>(1, 1200), *rc::gen::arbitrary<std::uint64_t>());
    const auto key = *rc::gen::inRange<std::uint64_t>(0, 3);
    const auto back = sent(codec, values, {.key = key});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float most = step_of(codec, values, i) * (key == 0 ? 0.5F : 1.0F) * 1.0001F;
      RC_ASSERT(std::abs(back[i] - values[i]) <= most);
    }
  });
}

TEST(BlockCode, MeansOverKeysAreTheElements) {
  for (const WireCodec codec : kCodecs) {
    const auto values = some_values(2 * kWireBlock, 5);
    constexpr int kKeys = 2000;
    std::vector<double> sums(values.size(), 0);
    for (int key = 1; key <= kKeys; ++key) {
      const auto back = sent(codec, values, {.key = mixed(99, static_cast<std::uint64_t>(key))});
      for (std::size_t i = 0; i < values.size(); ++i) sums[i] += back[i];
    }
    double bias = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // The standard deviation of a rounding is at most half a step. The mean practically never differs by five of its
      // deviations.
      const double error = (sums[i] / kKeys - values[i]) / step_of(codec, values, i);
      EXPECT_LT(std::abs(error), 5 * 0.5 / std::sqrt(kKeys) + 1.0 / 8192) << i;
      bias += error / static_cast<double>(values.size());
    }
    EXPECT_LT(std::abs(bias), 5 * 0.5 / std::sqrt(kKeys * values.size()) + 1.0 / 8192) << "the mean error is near 0";
  }
}

// With any rounding key.
TEST(BlockCode, KeepsMultiplesOfTheScale) {
  rc::check([] {
    const auto codec = *rc::gen::elementOf(std::vector<WireCodec>(std::begin(kCodecs), std::end(kCodecs)));
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto numel = *rc::gen::inRange<std::size_t>(1, 700);
    const float scale = std::ldexp(static_cast<float>(mixed(seed, 1) % 0xffffff + 1), static_cast<int>(seed % 60) - 40);
    const int most = most_of(codec);
    // The values that a decoder makes from codes: multiples of the scale, rounded to floats.
    std::vector<float> values(numel);
    for (std::size_t i = 0; i < numel; ++i) {
      const int code = static_cast<int>(mixed(seed, i) % static_cast<std::uint64_t>(2 * most + 1)) - most;
      values[i] = static_cast<float>(i % kWireBlock == 0 ? most : code) * scale;
    }
    const auto once = sent(codec, values, {.key = seed});
    for (std::size_t i = 0; i < numel; ++i) RC_ASSERT(std::abs(once[i] - values[i]) <= std::abs(values[i]) * 0x1p-22F);
    RC_ASSERT(encoded(codec, values, {.key = seed}) == encoded(codec, values));
  });
}

TEST(BlockCode, KeepsZerosAndPowersOfTwo) {
  for (const WireCodec codec : kCodecs) {
    std::vector<float> values(300, 0);
    values[3] = static_cast<float>(most_of(codec)) * 0x1p-30F;
    values[4] = -0x1p-30F;
    EXPECT_EQ(sent(codec, values, {.key = 7}), values);
  }
}

// The neighbours of such a block do not change.
TEST(BlockCode, NonFiniteBlocksBecomeNaNs) {
  for (const WireCodec codec : kCodecs) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      auto values = some_values(3 * kWireBlock, 3);
      values[kWireBlock + 77] = bad;
      const auto back = sent(codec, values, {.key = 1});
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(std::isnan(back[i]), i / kWireBlock == 1) << i << " with " << bad;
    }
  }
}

TEST(BlockCode, EncodesSmallestAndLargestFloats) {
  for (const WireCodec codec : kCodecs) {
    constexpr float kMost = std::numeric_limits<float>::max();
    const auto back = sent(codec, {kMost, -kMost, kMost / 2, 0}, {.key = 3});
    EXPECT_NEAR(back[0] / kMost, 1, 1e-6);
    EXPECT_NEAR(back[1] / kMost, -1, 1e-6);
    EXPECT_EQ(back[3], 0);
    const std::vector<float> tiny{0x1p-101F, std::numeric_limits<float>::denorm_min()};
    EXPECT_EQ(sent(codec, tiny, {.key = 3}), (std::vector<float>{0, 0}));
  }
}

TEST(BlockCode, InstructionSetsAndCutsKeepBytes) {
  for (const WireCodec codec : kCodecs) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const auto wide = some_values(5 * kWireBlock + 37, 11);
      const auto numel = std::ssize(wide);
      std::vector<std::byte> values(wide.size() * size_of(dtype));
      convert_elements(reinterpret_cast<const std::byte*>(wide.data()), DType::kFloat32, values.data(), dtype, numel);
      const auto bytes = static_cast<std::size_t>(wire_bytes(codec, numel, dtype));
      std::vector<std::byte> first_wire, first_back;
      on_each_target([&](const char* target) {
        std::vector<std::byte> wire(bytes), in_two(bytes), back(values.size());
        encode_for_wire(codec, {values.data(), dtype, numel}, {.key = 5, .first = 1000}, wire.data());
        constexpr std::int64_t kCut = 2 * kWireBlock;
        encode_for_wire(codec, {values.data(), dtype, kCut}, {.key = 5, .first = 1000}, in_two.data());
        encode_for_wire(codec, {values.data() + kCut * static_cast<std::int64_t>(size_of(dtype)), dtype, numel - kCut},
                        {.key = 5, .first = 1000 + kCut}, in_two.data() + wire_bytes(codec, kCut, dtype));
        decode_from_wire(codec, wire.data(), numel, back.data(), dtype);
        if (first_wire.empty()) {
          first_wire = wire;
          first_back = back;
        }
        EXPECT_EQ(wire, first_wire) << target << ", " << name_of(codec) << ", " << name_of(dtype);
        EXPECT_EQ(in_two, first_wire) << target << ", " << name_of(codec) << ", " << name_of(dtype);
        EXPECT_EQ(back, first_back) << target << ", " << name_of(codec) << ", " << name_of(dtype);
      });
    }
  }
}

TEST(BlockCode, AddsWhatItDecodes) {
  for (const WireCodec codec : kCodecs) {
    const auto values = some_values(600, 21);
    const auto wire = encoded(codec, values, {.key = 4});
    std::vector<float> sum = some_values(600, 22), expected = sum;
    const auto back = decoded(codec, wire, values.size());
    for (std::size_t i = 0; i < sum.size(); ++i) expected[i] += back[i];
    add_from_wire(codec, wire.data(), std::ssize(sum), sum.data());
    EXPECT_EQ(sum, expected);
  }
}

TEST(BlockCode, RoundingVariesByPositionAndKey) {
  const std::vector<float> values(kWireBlock, 0.3F);
  std::vector<float> mixed_values = values;
  mixed_values[0] = 1;  // so 0.3 is no multiple of the scale
  const auto wire = encoded(WireCodec::kInt4, mixed_values, {.key = 1});
  EXPECT_NE(wire, encoded(WireCodec::kInt4, mixed_values, {.key = 2}));
  EXPECT_NE(wire, encoded(WireCodec::kInt4, mixed_values, {.key = 1, .first = kWireBlock}));
  EXPECT_EQ(wire, encoded(WireCodec::kInt4, mixed_values, {.key = 1}));
}

TEST(WireCodec, SavesWhatItsNamePromises) {
  constexpr std::int64_t kNumel = 1 << 20;
  const auto ratio = [](WireCodec codec) {
    return 4.0 * kNumel / static_cast<double>(wire_bytes(codec, kNumel, DType::kFloat32));
  };
  EXPECT_NEAR(ratio(WireCodec::kInt8), 3.94, 0.005);
  EXPECT_NEAR(ratio(WireCodec::kInt4), 7.76, 0.005);
  EXPECT_EQ(wire_bytes(WireCodec::kInt8, 257, DType::kFloat32), 257 + 8);
  EXPECT_EQ(wire_bytes(WireCodec::kInt4, 257, DType::kFloat32), 128 + 1 + 8);
  EXPECT_EQ(wire_bytes(WireCodec::kNone, 257, DType::kBFloat16), 514);
  EXPECT_EQ(wire_codec_named("int4"), WireCodec::kInt4);
  EXPECT_EQ(wire_codec_named("int2"), std::nullopt);
}

}  // namespace
}  // namespace zero
