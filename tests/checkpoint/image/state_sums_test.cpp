#include "zero/checkpoint/image/state_sums.h"

#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::vector<float> values(std::size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 0.5F);
  return out;
}

std::span<const std::byte> part(const std::vector<float>& all, std::size_t begin, std::size_t count) {
  return std::as_bytes(std::span(all).subspan(begin, count));
}

StateSums whole(const std::vector<float>& all, std::string_view state = "parameter", std::string_view tensor = "w") {
  StateSums sums;
  sums.add(state, tensor, 0, std::as_bytes(std::span(all)), 4);
  return sums;
}

TEST(StateSums, CutsGiveTheSameSum) {
  const std::vector<float> all = values(100);
  for (const std::size_t cut : {1U, 16U, 50U, 99U}) {
    StateSums first, second;
    second.add("parameter", "w", static_cast<std::int64_t>(cut), part(all, cut, 100 - cut), 4);
    first.add("parameter", "w", 0, part(all, 0, cut), 4);
    second.merge(first);
    EXPECT_EQ(second, whole(all)) << cut;
  }
}

TEST(StateSums, EachBitCounts) {
  const std::vector<float> all = values(5);
  for (std::size_t bit = 0; bit < 5 * 32; ++bit) {
    std::vector<float> changed = all;
    reinterpret_cast<unsigned char*>(changed.data())[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
    EXPECT_NE(whole(changed), whole(all)) << bit;
  }
}

TEST(StateSums, OrderAndNamesCount) {
  std::vector<float> swapped = values(8);
  std::swap(swapped[2], swapped[5]);
  EXPECT_NE(whole(swapped), whole(values(8)));
  EXPECT_NE(whole(values(8), "parameter", "v").of_states().at("parameter"),
            whole(values(8)).of_states().at("parameter"));
  EXPECT_NE(whole(values(8), "exp_avg").of_states().at("exp_avg"), whole(values(8)).of_states().at("parameter"));
}

TEST(StateSums, TextComesBack) {
  StateSums sums = whole(values(3));
  sums.merge(whole(values(4), "exp_avg@0"));
  EXPECT_EQ(StateSums::of_text(to_text(sums)), sums);
  EXPECT_EQ(StateSums::of_text(""), StateSums());
  for (const char* text : {"parameter", "parameter 12", "parameter 00000000000000zz", " 0123456789abcdef",
                           "a 0123456789abcdef, a 0123456789abcdef"})
    EXPECT_EQ(StateSums::of_text(text), std::nullopt) << text;
}

// A file whose header and slices come in pieces of any size, also of a part of an element.
TEST(StateSums, PiecesMayCutElements) {
  const Manifest manifest{.states = {"parameter", "exp_avg"},
                          .tensors = {{.name = "w", .shape = {6}},
                                      {.name = "f", .shape = {3}, .dtype = DType::kBFloat16, .trainable = false}}};
  const std::vector<SavedSlice> slices{{0, 1, 2, 4, 10 + 16}, {0, 0, 2, 4, 10}, {1, 0, 0, 3, 10 + 32}};
  std::vector<std::byte> file(10 + 32 + 6 + 5);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<std::byte>(i * 37);
  StateSums expected;
  expected.add("parameter", "w", 2, std::span(file).subspan(10, 16), 4);
  expected.add("exp_avg", "w", 2, std::span(file).subspan(26, 16), 4);
  expected.add("parameter", "f", 0, std::span(file).subspan(42, 6), 2);
  for (const std::size_t piece : {1U, 3U, 7U, 64U}) {
    SumsOfFile sums(manifest, slices);
    for (std::size_t begin = 0; begin < file.size(); begin += piece)
      sums.add(std::span(file).subspan(begin, std::min(piece, file.size() - begin)));
    EXPECT_EQ(sums.sums(), expected) << piece;
  }
}

}  // namespace
}  // namespace zero
