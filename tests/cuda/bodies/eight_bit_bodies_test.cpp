#include "plugins/cuda/bodies/eight_bit_bodies.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/optim/elementwise/adamw8bit_kernel.h"

#include "tests/cuda/random_span.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

// A RandomSpan whose moments are in 8-bit codes.
struct CodedSpan {
  RandomSpan plain;
  std::vector<std::uint8_t> first, second;
  std::vector<float> first_scales, second_scales;

  explicit CodedSpan(Random& random) : plain(random, 0), first(plain.numel), second(plain.numel) {
    const std::size_t blocks = (plain.numel + kCodeBlock - 1) / kCodeBlock;
    first_scales.resize(blocks);
    second_scales.resize(blocks);
    for (std::size_t i = 0; i < plain.numel; ++i) {
      first[i] = static_cast<std::uint8_t>(random() % 255 - 127);  // -128 is not a code
      second[i] = static_cast<std::uint8_t>(random());
    }
    for (std::size_t block = 0; block < blocks; ++block) {
      first_scales[block] = std::fabs(random_value(random, 4));
      second_scales[block] = std::fabs(random_value(random, 4));
      // A block of zeros has only zero codes.
      const auto begin = block * kCodeBlock, end = std::min(plain.numel, begin + kCodeBlock);
      if (drawn(random, 10) != 0) continue;
      first_scales[block] = second_scales[block] = 0;
      for (std::size_t i = begin; i < end; ++i) first[i] = second[i] = 0;
      for (std::size_t i = begin; i < end && plain.gradient.dtype() == DType::kFloat32; ++i)
        reinterpret_cast<float*>(plain.gradient.data())[i] = 1e-30F;
    }
  }
  UpdateSpan span() {
    UpdateSpan span = plain.span();
    span.coded = {CodedState{first.data(), first_scales.data()}, CodedState{second.data(), second_scales.data()}};
    return span;
  }
  bool operator==(const CodedSpan& other) const {
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return std::ranges::equal(a, b, [](float x, float y) { return same_value(x, y); });
    };
    return plain == other.plain && first == other.first && second == other.second &&
           same(first_scales, other.first_scales) && same(second_scales, other.second_scales);
  }
};

// Updates a block like a group of threads: all load, then all find the peaks, then all store.
template <typename G, typename Low>
void update_block(const bodies::CodedSlice& s, const bodies::AdamBody& adam, std::int64_t begin, std::int64_t end) {
  using namespace bodies;
  std::array<Element, kCodeBlock> block;
  std::int32_t first_peak = 0, second_peak = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    Element& e = block[static_cast<std::size_t>(i - begin)];
    e = decoded(load_codes<G>(s, adam, i), adam, s.first.scales[i / kCodeBlock], s.second.scales[i / kCodeBlock]);
    first_peak = std::max(first_peak, magnitude_bits(e.first));
    second_peak = std::max(second_peak, magnitude_bits(e.second));
  }
  const BlockScale first = block_scale(first_peak), second = block_scale(second_peak);
  s.first.scales[begin / kCodeBlock] = first.scale;
  s.second.scales[begin / kCodeBlock] = second.scale;
  for (std::int64_t i = begin; i < end; ++i)
    store_coded<Low>(s, adam, block[static_cast<std::size_t>(i - begin)], first.two_over, second.two_over, i);
}

void update_by_bodies(const UpdateSpan& span, const AdamConstants& constants) {
  using namespace bodies;
  const CodedSlice coded = coded_slice_of(span);
  with_types(coded.slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
    for (std::int64_t begin = 0; begin < span.numel; begin += kCodeBlock)
      update_block<G, Low>(coded, AdamBody{constants}, begin, std::min(span.numel, begin + kCodeBlock));
  });
}

TEST(EightBitBodies, AdamWMatchesHostBits) {
  Random random(11);
  const int trials = num_trials("ZERO_BODY_SPANS", 4000, 200000) / 8;
  for (int trial = 0; trial < trials; ++trial) {
    const auto constants =
        adamw8bit_constants(AdamWOptions{.beta2 = 0.99},
                            {.step = 1 + drawn(random, 50), .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1});
    const CodedSpan start(random);
    CodedSpan expected = start, actual = start;
    adamw8bit_update(expected.span(), constants);
    update_by_bodies(actual.span(), constants);
    ASSERT_TRUE(actual == expected) << "span " << trial << " of " << start.plain.numel;
  }
}

TEST(EightBitBodies, EveryCodeRoundTrips) {
  using namespace bodies;
  const float scale = 0.731F;
  const BlockScale block = block_scale(magnitude_bits(scale));
  EXPECT_EQ(block.scale, scale);
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    std::uint8_t own = byte;
    float expected = 0;
    float scales = scale;
    decode_blocks(StateCode::kUnsigned8, {&own, &scales}, {&expected, 1});
    const float value = decode_code<UnsignedBody>(byte, 0.5F * scale);
    EXPECT_EQ(value, expected);
    EXPECT_EQ(encode_value<UnsignedBody>(value, block.two_over), byte);
    if (code == 128) continue;  // -128 is not a code
    decode_blocks(StateCode::kSigned8, {&own, &scales}, {&expected, 1});
    EXPECT_EQ(decode_code<SignedBody>(byte, 0.5F * scale), expected);
    EXPECT_EQ(encode_value<SignedBody>(expected, block.two_over), byte);
  }
}

}  // namespace
}  // namespace zero
