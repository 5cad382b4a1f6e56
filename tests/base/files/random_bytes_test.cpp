#include "zero/base/files/random_bytes.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(RandomBytes, NoNameComesTwice) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(random_name(8));
  EXPECT_EQ(names.size(), 1000u);
}

TEST(RandomBytes, NameIsHexadecimal) {
  EXPECT_EQ(random_name(16).size(), 32u);
  EXPECT_EQ(random_name(16).find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(random_name(0), "");
}

TEST(RandomBytes, EveryByteIsDrawn) {
  std::array<std::byte, 100> memory{};
  std::array<bool, 100> drawn{};
  for (int i = 0; i < 20; ++i) {  // a byte that is zero 20 times was not random
    fill_with_random_bytes(memory);
    for (std::size_t at = 0; at < memory.size(); ++at) drawn[at] = drawn[at] || memory[at] != std::byte{0};
  }
  for (std::size_t at = 0; at < drawn.size(); ++at) EXPECT_TRUE(drawn[at]) << at;
}

TEST(RandomBytes, NumbersUseTheirHighBits) {
  std::uint64_t any = 0;
  for (int i = 0; i < 100; ++i) any |= random_number();
  EXPECT_EQ(any, ~std::uint64_t{0});
}

}  // namespace
}  // namespace zero
