#include "zero/comm/rank_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <rapidcheck.h>

#include "tests/support/tier.h"

namespace zero {
namespace {

std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

// fp16 sums overflow. For a norm, an infinity and a NaN mean the same.
bool same_sum(const ReduceStats& seen, const ReduceStats& expected) {
  const double a = seen.sum_squares.value(), b = expected.sum_squares.value();
  return std::isfinite(a) ? bits_of(a) == bits_of(b) : !std::isfinite(b);
}

// The contract of the header as the simplest code.
ReduceStats plain_stats(const std::vector<float>& values) {
  ReduceStats stats;
  for (std::size_t begin = 0; begin < values.size(); begin += 16) {
    const auto square = [&](std::size_t i) {
      const double x = begin + i < values.size() ? values[begin + i] : 0;
      return x * x;
    };
    for (std::size_t i = 0; i < 4; ++i)
      stats.sum_squares.add((square(i) + square(i + 8)) + (square(i + 4) + square(i + 12)));
  }
  for (const float value : values) stats.num_non_finite += !std::isfinite(value);
  return stats;
}

float load(const std::byte* data, DType dtype, std::size_t i) {
  return with_type_of(dtype, [&]<typename T>(std::type_identity<T>) {
    T value;
    std::memcpy(&value, data + sizeof(T) * i, sizeof(T));
    return to_float(value);
  });
}

void store(std::byte* data, DType dtype, std::size_t i, float value) {
  with_type_of(dtype, [&]<typename T>(std::type_identity<T>) {
    const T bits = rounded_to<T>(value);
    std::memcpy(data + sizeof(T) * i, &bits, sizeof(T));
  });
}

constexpr DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Calls body with each instruction set of this machine.
template <class Body>
void for_each_target(Body body) {
  const std::int64_t targets = HWY_TARGETS & hwy::SupportedTargets();
  for (std::int64_t rest = targets; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    hwy::GetChosenTarget().DeInit();
    body(hwy::TargetName(rest & -rest));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

struct Sum {
  std::size_t numel, num_ranks;
  DType dtype, out_dtype;
  bool accumulate, aliased;
  std::size_t misalignment;  // number of elements by which every buffer is misaligned
  std::uint32_t seed;
};

float value_of(std::uint32_t seed, std::size_t rank, std::size_t i) {
  std::uint32_t h = seed * 0x9e3779b1u + static_cast<std::uint32_t>(rank * 7919 + i) * 0x85ebca77u;
  h = (h ^ (h >> 15)) * 0x2c1b3c6du;
  h ^= h >> 13;
  return (static_cast<float>(h & 0xffff) / 65536.0f - 0.5f) * static_cast<float>(1u << ((h >> 16) % 24));
}

struct Result {
  std::vector<std::byte> out;
  ReduceStats stats;
};

Result run(const Sum& sum) {
  const std::size_t in_width = size_of(sum.dtype), out_width = size_of(sum.out_dtype);
  std::vector<std::vector<std::byte>> buffers(sum.num_ranks);
  std::vector<const std::byte*> in;
  for (std::size_t r = 0; r < sum.num_ranks; ++r) {
    buffers[r].resize((sum.numel + sum.misalignment) * 4 + 64);
    std::byte* data = buffers[r].data() + sum.misalignment * in_width;
    for (std::size_t i = 0; i < sum.numel; ++i) store(data, sum.dtype, i, value_of(sum.seed, r, i));
    in.push_back(data);
  }
  std::vector<std::byte> separate((sum.numel + sum.misalignment) * 4 + 64);
  std::byte* out = sum.aliased ? const_cast<std::byte*>(in.back()) : separate.data() + sum.misalignment * out_width;
  if (sum.accumulate) {
    for (std::size_t i = 0; i < sum.numel; ++i) store(out, DType::kFloat32, i, value_of(sum.seed, 99, i));
  }
  ReduceStats stats;
  sum_ranks({.in = in,
             .dtype = sum.dtype,
             .out = out,
             .out_dtype = sum.out_dtype,
             .numel = static_cast<std::int64_t>(sum.numel),
             .accumulate = sum.accumulate},
            &stats);
  return {{out, out + sum.numel * out_width}, stats};
}

Result reference(const Sum& sum) {
  Result result;
  result.out.resize(sum.numel * size_of(sum.out_dtype));
  std::vector<float> values;
  const auto input = [&](std::size_t r, std::size_t i) {
    const float value = value_of(sum.seed, r, i);
    return with_type_of(sum.dtype, [&]<typename T>(std::type_identity<T>) { return to_float(rounded_to<T>(value)); });
  };
  for (std::size_t i = 0; i < sum.numel; ++i) {
    float value = input(0, i);
    for (std::size_t r = 1; r < sum.num_ranks; ++r) value += input(r, i);
    if (sum.accumulate) value = value_of(sum.seed, 99, i) + value;
    store(result.out.data(), sum.out_dtype, i, value);
    values.push_back(load(result.out.data(), sum.out_dtype, i));
  }
  result.stats = plain_stats(values);
  return result;
}

TEST(RankSum, InstructionSetsMatchThePlainLoop) {
  for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    Sweep sweep(5);
    for (const std::size_t numel : {0, 1, 15, 16, 17, 4095, 4096, 4097, 3 * 4096 + 5}) {
      for (const std::size_t num_ranks : {1, 2, 5}) {
        for (const DType dtype : kAllTypes) {
          for (const DType out_dtype : kAllTypes) {
            for (const bool accumulate : {false, true}) {
              if ((accumulate && out_dtype != DType::kFloat32) || !sweep.takes_next()) continue;
              const Sum sum{numel, num_ranks, dtype, out_dtype, accumulate, false, 0, 7};
              const Result got = run(sum), expected = reference(sum);
              ASSERT_EQ(got.out, expected.out) << numel << " of " << num_ranks;
              ASSERT_TRUE(same_sum(got.stats, expected.stats));
              ASSERT_EQ(got.stats.num_non_finite, expected.stats.num_non_finite);
            }
          }
        }
      }
    }
  });
}

TEST(RankSum, AnyRequestMatchesThePlainLoop) {
  rc::check([] {
    Sum sum{};
    sum.numel = *rc::gen::inRange<std::size_t>(0, 10000);
    sum.num_ranks = *rc::gen::inRange<std::size_t>(1, 9);
    sum.dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
    sum.out_dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
    sum.aliased = sum.dtype == sum.out_dtype && *rc::gen::arbitrary<bool>();
    sum.accumulate = !sum.aliased && sum.out_dtype == DType::kFloat32 && *rc::gen::arbitrary<bool>();
    sum.misalignment = *rc::gen::inRange<std::size_t>(0, 16);
    sum.seed = *rc::gen::arbitrary<std::uint32_t>();
    const Result got = run(sum), expected = reference(sum);
    RC_ASSERT(got.out == expected.out);
    RC_ASSERT(same_sum(got.stats, expected.stats));
  });
}

TEST(RankSum, StreamedResultsKeepTheirBits) {
  // Larger than the limit above which results bypass the caches. Aligned, as a transport's memory is.
  constexpr std::size_t kNumel = (std::size_t{6} << 20) / 4 + 3;
  std::vector<float> a(kNumel), b(kNumel);
  for (std::size_t i = 0; i < kNumel; ++i) {
    a[i] = value_of(1, 0, i);
    b[i] = value_of(1, 1, i);
  }
  std::vector<std::byte> memory(kNumel * 4 + 64);
  const std::size_t skip = (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  auto* out = reinterpret_cast<float*>(memory.data() + skip);
  const std::byte* const in[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data())};
  ReduceStats stats;
  sum_ranks({.in = in, .out = memory.data() + skip, .numel = kNumel}, &stats);
  std::vector<float> expected(kNumel);
  for (std::size_t i = 0; i < kNumel; ++i) expected[i] = a[i] + b[i];
  EXPECT_EQ(std::memcmp(out, expected.data(), kNumel * 4), 0);
  EXPECT_TRUE(same_sum(stats, plain_stats(expected)));
}

TEST(RankSum, RoundsLikeTheScalarConversion) {
  // For bf16 and fp16: ties, overflow to infinity, denormals, signed infinities and NaNs, and patterns over the whole
  // range.
  std::vector<std::uint32_t> patterns = {
      0x00000000, 0x80000000, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
      0x7fc00000, 0xffc00001, 0x7f800001, 0x7fffffff, 0x00000001, 0x00008000, 0x00018000, 0x807fffff, 0x3fffffff,
      0x4b000001, 0x12345678, 0x477fefff, 0x477ff000, 0xc77ff000, 0x38800000, 0x387fffff, 0x33000000, 0x33000001,
      0x33800000, 0xb3c00000, 0x3f801000, 0x3f803000, 0x3f801001, 0x387fe000, 0x387ff000};
  for (std::uint32_t i = 0; i < 20000; ++i) patterns.push_back(i * 214013U + (i << 18));
  std::vector<float> values;
  for (const std::uint32_t bits : patterns) values.push_back(std::bit_cast<float>(bits));
  for_each_target([&](const char* target) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      std::vector<std::uint16_t> out(values.size());
      const std::byte* const in[] = {reinterpret_cast<const std::byte*>(values.data())};
      sum_ranks(
          {.in = in, .out = reinterpret_cast<std::byte*>(out.data()), .out_dtype = dtype, .numel = std::ssize(values)},
          nullptr);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto expected = dtype == DType::kBFloat16 ? static_cast<std::uint16_t>(to_bfloat16(values[i]))
                                                        : static_cast<std::uint16_t>(to_float16(values[i]));
        ASSERT_EQ(out[i], expected) << target << ' ' << name_of(dtype) << ' ' << std::hex << patterns[i];
      }
    }
  });
}

TEST(RankSum, ReadsFp16LikeScalarConversion) {
  std::vector<std::uint16_t> halves(0x10000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for_each_target([&](const char* target) {
    std::vector<float> out(halves.size());
    const std::byte* const in[] = {reinterpret_cast<const std::byte*>(halves.data())};
    sum_ranks({.in = in,
               .dtype = DType::kFloat16,
               .out = reinterpret_cast<std::byte*>(out.data()),
               .numel = std::ssize(halves)},
              nullptr);
    for (std::size_t i = 0; i < halves.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]),
                std::bit_cast<std::uint32_t>(to_float(static_cast<Float16Bits>(halves[i]))))
          << target << ' ' << i;
  });
}

// The output is the input.
TEST(RankSum, WorldOfOneOnlyReads) {
  // The values are in memory that must not be written.
  static const std::vector<float> values = {1, 2, 3};
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  const std::byte* const in[] = {data};
  ReduceStats stats;
  sum_ranks({.in = in, .out = const_cast<std::byte*>(data), .numel = 3}, &stats);
  EXPECT_EQ(stats.sum_squares.value(), 14.0);
}

TEST(RankSum, CountsNonFiniteElementsAnywhere) {
  std::vector<float> values(10000, 2.0f);
  for (const std::size_t i : {0, 17, 4095, 4096, 9999}) values[i] = i % 2 == 0 ? std::nanf("") : -INFINITY;
  for_each_target([&](const char*) {
    const ReduceStats stats = stats_of(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, 10000);
    EXPECT_EQ(stats.num_non_finite, 5);
    EXPECT_FALSE(std::isfinite(stats.sum_squares.value()));
  });
}

TEST(RankSum, TheLargestFloatsAreNoOverflow) {
  const std::vector<float> values(8192, std::numeric_limits<float>::max());
  const ReduceStats stats = stats_of(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, 8192);
  EXPECT_TRUE(std::isfinite(stats.sum_squares.value()));
  EXPECT_EQ(stats.num_non_finite, 0);
}

TEST(RankSum, ASumThatOverflowsIsCounted) {
  const std::vector<float> values(20, std::numeric_limits<float>::max());
  std::vector<float> out(20);
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  const std::byte* const in[] = {data, data};
  ReduceStats stats;
  sum_ranks({.in = in, .out = reinterpret_cast<std::byte*>(out.data()), .numel = 20}, &stats);
  EXPECT_EQ(stats.num_non_finite, 20);
  EXPECT_EQ(stats.sum_squares.value(), INFINITY);
}

// Values with magnitudes from 2^lowest to 2^highest, with zeros among them.
std::vector<float> spread_values(std::size_t numel, int lowest, int highest, std::mt19937& random) {
  std::uniform_real_distribution<double> exponent(lowest, highest);
  std::vector<float> values(numel);
  for (float& value : values)
    value = random() % 8 == 0 ? 0 : static_cast<float>(std::exp2(exponent(random)) * (random() % 2 == 0 ? 1 : -1));
  return values;
}

ReduceStats stats_of_values(std::span<const float> values) {
  return stats_of(std::as_bytes(values).data(), DType::kFloat32, std::ssize(values));
}

// For all cuts at multiples of 16, and all orders of the parts.
TEST(RankSum, PartsSumToTheWholesBits) {
  std::mt19937 random(3);
  for_each_target([&](const char* target) {
    for (const auto& [lowest, highest] : {std::pair{-1, 1}, {-20, 0}, {-60, -20}, {-149, 128}}) {
      const std::vector<float> values = spread_values(40'000, lowest, highest, random);
      const double whole = stats_of_values(values).sum_squares.value();
      ASSERT_EQ(bits_of(whole), bits_of(plain_stats(values).sum_squares.value())) << target << ", from 2^" << lowest;
      for (int round = 0; round < 5; ++round) {
        std::vector<std::span<const float>> parts;
        for (std::size_t begin = 0; begin < values.size();) {
          const std::size_t numel = std::min<std::size_t>(values.size() - begin, 16 * (1 + random() % 700));
          parts.push_back(std::span(values).subspan(begin, numel));
          begin += numel;
        }
        std::ranges::shuffle(parts, random);
        ExactSum sum;
        for (const auto part : parts) sum.add(stats_of_values(part).sum_squares);
        ASSERT_EQ(bits_of(sum.value()), bits_of(whole)) << target << ", from 2^" << lowest;
      }
    }
  });
}

TEST(RankSum, SquaresMatchLongDoubleSums) {
  std::mt19937 random(5);
  for (const auto& [lowest, highest] : {std::pair{-1, 1}, {-20, 0}, {-60, -20}, {-100, 60}}) {
    const std::vector<float> values = spread_values(100'000, lowest, highest, random);
    long double plain = 0;
    for (const float value : values) plain += static_cast<long double>(value) * value;
    const auto expected = static_cast<double>(plain);
    EXPECT_NEAR(stats_of_values(values).sum_squares.value(), expected, 1e-15 * expected) << "from 2^" << lowest;
  }
}

// The kernel adds in a window of exponents that it chooses from earlier values. A sudden change of magnitude leaves
// that window.
TEST(RankSum, MagnitudesThatChangeLoseNothing) {
  const std::vector<float> steps{1, 0x1p-100F, 0, 0x1p-140F, 0x1p120F, 0x1p-30F, 0x1p-149F, 3, 0x1p127F, 0};
  std::vector<float> values;
  for (const float step : steps) values.insert(values.end(), 5000, step);
  for_each_target([&](const char* target) {
    ExactSum expected;
    for (const float step : steps) {
      for (int i = 0; i < 5000; ++i) expected.add(static_cast<double>(step) * step);
    }
    EXPECT_EQ(bits_of(stats_of_values(values).sum_squares.value()), bits_of(expected.value())) << target;
  });
}

TEST(RankSum, TilesSumToTheSameStatistics) {
  const std::size_t numel = 5 * kStatsBlock + 100;
  std::vector<float> values(numel), out(numel);
  for (std::size_t i = 0; i < numel; ++i) values[i] = value_of(3, 0, i);
  values[3 * kStatsBlock] = INFINITY;
  values[numel - 1] = std::nanf("");
  ReduceStats tiles;
  for (std::size_t first = 0; first < numel; first += 2 * kStatsBlock) {
    const std::byte* const in[] = {reinterpret_cast<const std::byte*>(values.data() + first)};
    sum_ranks({.in = in,
               .out = reinterpret_cast<std::byte*>(out.data() + first),
               .numel = static_cast<std::int64_t>(std::min<std::size_t>(numel - first, 2 * kStatsBlock))},
              &tiles);
    const double sum = stats_of_values(std::span(values).first(std::min<std::size_t>(numel, first + 2 * kStatsBlock)))
                           .sum_squares.value();
    EXPECT_TRUE(bits_of(tiles.sum_squares.value()) == bits_of(sum) || (std::isnan(sum) && first > 3 * kStatsBlock));
  }
  EXPECT_EQ(tiles.num_non_finite, 2);
}

// A sum over many ranks may be made in parts: ((begun + in_0) + in_1). It is in fp32 for every type of the ranks, in
// place or not.
TEST(RankSum, StartsFromTheGivenSum) {
  for_each_target([](const char* target) {
    for (const DType dtype : kAllTypes) {
      for (const std::size_t numel : {1, 16, 4097, 9001}) {
        for (const bool in_place : {false, true}) {
          std::vector<std::byte> first(numel * 4), second(numel * 4);
          std::vector<float> begun(numel), separate(numel), expected(numel);
          for (std::size_t i = 0; i < numel; ++i) {
            store(first.data(), dtype, i, 0x1p-10F * value_of(1, 0, i));  // no overflow in fp16
            store(second.data(), dtype, i, 0x1p-10F * value_of(1, 1, i));
            begun[i] = value_of(1, 2, i);
            expected[i] = (begun[i] + load(first.data(), dtype, i)) + load(second.data(), dtype, i);
          }
          const std::byte* const in[] = {first.data(), second.data()};
          std::vector<float>& out = in_place ? begun : separate;
          ReduceStats stats;
          sum_ranks({.in = in,
                     .dtype = dtype,
                     .out = reinterpret_cast<std::byte*>(out.data()),
                     .numel = static_cast<std::int64_t>(numel),
                     .onto = begun.data()},
                    &stats);
          ASSERT_EQ(std::memcmp(out.data(), expected.data(), numel * 4), 0) << target << ", " << numel << " elements";
          ASSERT_TRUE(same_sum(stats, plain_stats(expected)));
        }
      }
    }
  });
}

}  // namespace
}  // namespace zero
