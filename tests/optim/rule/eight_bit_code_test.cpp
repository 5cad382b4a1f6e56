#include "zero/optim/rule/eight_bit_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>
#include <rapidcheck/gtest.h>

#include "zero/optim/lanes/kernel_target.h"

namespace zero {
namespace {

constexpr StateCode kBoth[] = {StateCode::kSigned8, StateCode::kUnsigned8};

int most(StateCode code) {
  return code == StateCode::kSigned8 ? 127 : 255;
}

struct Coded {
  StateCode code;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;

  Coded(StateCode which, std::size_t numel)
      : code(which), codes(numel, 0xcc), scales((numel + kCodeBlock - 1) / kCodeBlock, -1.0F) {}
  Coded(StateCode which, const std::vector<float>& values) : Coded(which, values.size()) {
    encode_blocks(code, values, {codes.data(), scales.data()});
  }
  std::vector<float> decoded() {
    std::vector<float> values(codes.size());
    decode_blocks(code, {codes.data(), scales.data()}, values);
    return values;
  }
  bool operator==(const Coded& other) const {
    const auto bits = [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    return codes == other.codes && std::ranges::equal(scales, other.scales, bits);
  }
};

// expand() of the header in double, from its description: one octave of y becomes four octaves of x.
double expand(double y) {
  if (y == 0) return 0;
  int exponent = 0;
  const double fraction = 2 * std::frexp(y, &exponent) - 1;
  const double octaves = 4 * (exponent - 1 + fraction);
  return std::ldexp(1 + octaves - std::floor(octaves), static_cast<int>(std::floor(octaves)));
}

double shrink(double x) {
  if (x == 0) return 0;
  int exponent = 0;
  const double fraction = 2 * std::frexp(x, &exponent) - 1;
  const double octaves = (exponent - 1 + fraction) / 4;
  return std::ldexp(1 + octaves - std::floor(octaves), static_cast<int>(std::floor(octaves)));
}

// Values of all sizes, with zeros and denormals. `spread`: octaves between the largest and the smallest.
std::vector<float> values_of(StateCode code, std::mt19937& random, std::size_t numel, int largest, int spread) {
  std::vector<float> values(numel);
  for (float& value : values) {
    const int exponent = largest - static_cast<int>(random() % static_cast<unsigned>(spread + 1));
    value = std::ldexp(1 + static_cast<float>(random() % 8'388'608) / 8'388'608, exponent);
    if (random() % 16 == 0) value = 0;
    if (code == StateCode::kSigned8 && random() % 2 == 0) value = -value;
  }
  return values;
}

TEST(EightBitCode, CodesHaveDocumentedValues) {
  for (const StateCode code : kBoth) {
    Coded state(code, 256);
    state.scales[0] = 0.75F;
    for (std::size_t i = 0; i < 256; ++i) state.codes[i] = static_cast<std::uint8_t>(i);
    const std::vector<float> values = state.decoded();
    for (int k = 0; k <= most(code); ++k) {
      const auto at = static_cast<std::size_t>(k);
      const double wanted = 0.75 * expand(static_cast<double>(k) / most(code));
      EXPECT_NEAR(values[at], wanted, 1e-6 * wanted) << "code " << k;
      EXPECT_TRUE(k == 0 || values[at] > values[at - 1]);
      if (code == StateCode::kSigned8 && k > 0) {
        EXPECT_EQ(values[256 - at], -values[at]);
      }
    }
    EXPECT_EQ(values[static_cast<std::size_t>(most(code))], 0.75F) << "the scale, exactly";
  }
}

TEST(EightBitCode, AValueTakesTheNearestCode) {
  std::mt19937 random(3);
  for (const StateCode code : kBoth) {
    const std::vector<float> values = values_of(code, random, 20 * 256, 0, 30);
    const Coded state(code, values);
    int ties = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double place = most(code) * shrink(std::abs(values[i]) / state.scales[i / 256]);
      int wanted = static_cast<int>(std::nearbyint(place));
      if (code == StateCode::kUnsigned8 && values[i] > 0) wanted = std::max(wanted, 1);
      const int kept = code == StateCode::kSigned8 ? static_cast<std::int8_t>(state.codes[i]) : state.codes[i];
      const int k = std::abs(kept);
      if (std::abs(place - std::floor(place) - 0.5) < 1e-3) {
        ++ties;  // double and float may round to different sides
        EXPECT_LE(std::abs(k - wanted), 1);
        continue;
      }
      EXPECT_EQ(k, wanted) << values[i] << " of " << state.scales[i / 256];
      EXPECT_TRUE(kept == 0 || (kept < 0) == (values[i] < 0));
    }
    EXPECT_LT(ties, 100);
  }
}

TEST(EightBitCode, ScaleIsBlocksExactMaximum) {
  std::vector<float> values(600, 0.01F);
  values[17] = -3.3F;
  values[300] = 7.7F;
  values[599] = 0.01F;
  Coded state(StateCode::kSigned8, values);
  EXPECT_EQ(state.scales, (std::vector<float>{3.3F, 7.7F, 0.01F}));
  const std::vector<float> back = state.decoded();
  EXPECT_EQ(back[17], -3.3F);
  EXPECT_EQ(back[300], 7.7F);
  EXPECT_EQ(back[599], 0.01F);
}

RC_GTEST_PROP(EightBitCode, ReencodingDecodedValuesLosesNothing, ()) {
  std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
  const StateCode code = *rc::gen::element(StateCode::kSigned8, StateCode::kUnsigned8);
  const int largest = *rc::gen::inRange(-149, 128);
  const auto numel = *rc::gen::inRange<std::size_t>(1, 900);
  Coded state(code, values_of(code, random, numel, largest, *rc::gen::inRange(0, 60)));
  const Coded again(code, state.decoded());
  RC_ASSERT(again == state);
}

TEST(EightBitCode, EveryCodeAndScaleReencodesExactly) {
  for (const StateCode code : kBoth) {
    for (int exponent = -90; exponent < 128; ++exponent) {
      for (const float mantissa : {1.0F, 1.2345678F, 1.9999999F}) {
        Coded state(code, 256);
        state.scales[0] = std::ldexp(mantissa, exponent);
        for (std::size_t i = 0; i < 256; ++i) state.codes[i] = static_cast<std::uint8_t>(i);
        if (code == StateCode::kSigned8) state.codes[128] = 0;  // -128 is not a code
        EXPECT_EQ(Coded(code, state.decoded()), state) << state.scales[0];
      }
    }
  }
}

TEST(EightBitCode, ATinyBlockIsZero) {
  for (const StateCode code : kBoth) {
    for (const float largest : {0.0F, std::numeric_limits<float>::denorm_min(), 1e-38F, 0x1.fffffep-91F}) {
      std::vector<float> values(256, largest / 4);
      values[9] = largest;
      Coded state(code, values);
      EXPECT_EQ(state.scales[0], 0);
      EXPECT_EQ(state.codes, std::vector<std::uint8_t>(256, 0));
      EXPECT_EQ(state.decoded(), std::vector<float>(256, 0));
    }
    std::vector<float> values(256, 0x1p-90F);
    EXPECT_EQ(Coded(code, values).decoded(), values);
  }
}

// In the code without a sign.
TEST(EightBitCode, PositiveValuesNeverBecomeZero) {
  std::vector<float> values(256, 1e-30F);
  values[0] = 1e3F;
  values[1] = 0;
  Coded state(StateCode::kUnsigned8, values);
  EXPECT_EQ(state.codes[1], 0);
  EXPECT_EQ(state.codes[2], 1);
  EXPECT_GT(state.decoded()[2], 0);
  EXPECT_EQ(Coded(StateCode::kSigned8, values).codes[2], 0);
  const Coded all = state;
  for (float& value : values) value = -value;
  EXPECT_EQ(Coded(StateCode::kUnsigned8, values), all) << "negative values, as in a wrong file, count by magnitude";
}

// Every value of the block becomes NaN.
TEST(EightBitCode, NonFiniteValueSpoilsItsBlock) {
  for (const StateCode code : kBoth) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values(300, 1.0F);
      values[7] = bad;
      Coded state(code, values);
      const std::vector<float> back = state.decoded();
      for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(std::isnan(back[i]), i < 256) << i;
      EXPECT_EQ(Coded(code, back), state);
    }
  }
}

TEST(EightBitCode, EveryInstructionSetGivesSameBits) {
  std::mt19937 random(8);
  for (const StateCode code : kBoth) {
    const std::vector<float> values = values_of(code, random, 1003, 3, 40);
    Coded expected(code, values);
    const std::vector<float> decoded = expected.decoded();
    int targets = 0;
    for (const auto target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      ++targets;
      Coded actual(code, values);
      EXPECT_EQ(actual, expected) << kernel_target();
      EXPECT_EQ(actual.decoded(), decoded) << kernel_target();
    }
    hwy::SetSupportedTargetsForTest(0);
    EXPECT_GT(targets, 0);
  }
}

// bitsandbytes' dynamic map (create_dynamic_map in its functional.py), without the sign.
std::vector<double> bitsandbytes_table(StateCode code) {
  std::vector<double> table{0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int steps = 1 << (code == StateCode::kSigned8 ? decade : decade + 1);
    for (int i = 0; i < steps; ++i) table.push_back(std::pow(10.0, decade - 6) * (0.1 + 0.9 * (i + 0.5) / steps));
  }
  std::ranges::sort(table);
  return table;
}

double nearest(const std::vector<double>& table, double value) {
  const auto above = std::ranges::lower_bound(table, value);
  if (above == table.begin()) return *above;
  return *above - value < value - *std::prev(above) ? *above : *std::prev(above);
}

struct Errors {
  double rms = 0, median = 0, zeros = 0;
};

// Errors of values that are given as parts of the block's largest magnitude.
Errors errors_of(const std::vector<double>& parts, const std::vector<double>& kept) {
  Errors errors;
  std::vector<double> relative;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    errors.rms += (kept[i] - parts[i]) * (kept[i] - parts[i]) / static_cast<double>(parts.size());
    errors.zeros += (kept[i] == 0 ? 1.0 : 0.0) / static_cast<double>(parts.size());
    relative.push_back(std::abs(kept[i] / parts[i] - 1));
  }
  std::ranges::nth_element(relative, relative.begin() + std::ssize(relative) / 2);
  return {std::sqrt(errors.rms), relative[relative.size() / 2], errors.zeros};
}

// Codes of moments with normal gradients. `spread`: decades between the gradients of one block.
std::pair<Errors, Errors> ours_and_theirs(StateCode code, double spread) {
  constexpr std::size_t kNumel = 256 * 500;
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> decade(-spread, 0);
  std::vector<float> values(kNumel);
  for (float& value : values) {
    const double gradient = std::abs(normal(random)) * std::pow(10.0, decade(random));
    value = static_cast<float>(code == StateCode::kSigned8 ? gradient : gradient * gradient);
  }
  Coded state(code, values);
  const std::vector<float> back = state.decoded();
  const std::vector<double> table = bitsandbytes_table(code);
  std::vector<double> parts, ours, theirs;
  for (std::size_t i = 0; i < kNumel; ++i) {
    const double scale = state.scales[i / 256];
    parts.push_back(values[i] / scale);
    ours.push_back(back[i] / scale);
    theirs.push_back(nearest(table, parts.back()));
  }
  return {errors_of(parts, ours), errors_of(parts, theirs)};
}

// The errors are at most a little larger, as the factors below say.
TEST(EightBitCode, IsAsPreciseAsBitsandbytes) {
  for (const StateCode code : kBoth) {
    for (const double spread : {0.0, 3.0}) {
      const auto& [ours, theirs] = ours_and_theirs(code, spread);
      EXPECT_LT(ours.rms, 1.25 * theirs.rms) << "spread over " << spread << " decades";
      EXPECT_LT(ours.median, 1.05 * theirs.median) << "spread over " << spread << " decades";
      EXPECT_LE(ours.zeros, theirs.zeros) << "spread over " << spread << " decades";
      RecordProperty(std::to_string(static_cast<int>(code)) + "_" + std::to_string(static_cast<int>(spread)),
                     std::to_string(ours.rms) + " " + std::to_string(theirs.rms) + " " + std::to_string(ours.median) +
                         " " + std::to_string(theirs.median) + " " + std::to_string(ours.zeros) + " " +
                         std::to_string(theirs.zeros));
    }
  }
  EXPECT_EQ(ours_and_theirs(StateCode::kUnsigned8, 3).first.zeros, 0);
  EXPECT_GT(ours_and_theirs(StateCode::kUnsigned8, 3).second.zeros, 0.05);
}

}  // namespace
}  // namespace zero
