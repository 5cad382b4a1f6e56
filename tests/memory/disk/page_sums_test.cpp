#include "zero/memory/disk/page_sums.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/process_memory.h"

#include "tests/memory/filled_pages.h"

namespace zero {
namespace {

constexpr std::size_t kPage = 4096;

TEST(PageSums, WhatWasNotedIsRight) {
  PageSums sums(16 * kPage);
  const Allocation block = filled_pages(3 * kPage, 1);
  sums.note(4 * kPage, block.bytes());
  EXPECT_EQ(sums.first_wrong(4 * kPage, block.bytes()), -1);
  EXPECT_EQ(sums.first_wrong(5 * kPage, block.bytes().subspan(kPage)), -1) << "and so is each single page";
}

TEST(PageSums, WhatWasNeverNotedIsWrong) {
  PageSums sums(16 * kPage);
  const Allocation zeros = allocate_host(2 * kPage);
  EXPECT_EQ(sums.first_wrong(0, zeros.bytes()), 0);
  sums.note(0, zeros.bytes().first(kPage));
  EXPECT_EQ(sums.first_wrong(0, zeros.bytes()), static_cast<std::int64_t>(kPage));
}

TEST(PageSums, TheLastNoteCounts) {
  PageSums sums(4 * kPage);
  const Allocation old_page = filled_pages(kPage, 1);
  const Allocation new_page = filled_pages(kPage, 2);
  sums.note(0, old_page.bytes());
  sums.note(0, new_page.bytes());
  EXPECT_EQ(sums.first_wrong(0, old_page.bytes()), 0);
  EXPECT_EQ(sums.first_wrong(0, new_page.bytes()), -1);
}

TEST(PageSums, AnotherPlacesPageIsWrongHere) {
  PageSums sums(4 * kPage);
  const Allocation block = filled_pages(2 * kPage, 3);
  sums.note(0, block.bytes());
  EXPECT_EQ(sums.first_wrong(0, block.bytes().subspan(kPage)), 0);
}

RC_GTEST_PROP(PageSums, FindsFlippedBitsPage, ()) {
  PageSums sums(8 * kPage);
  Allocation block = filled_pages(4 * kPage, *rc::gen::arbitrary<std::uint64_t>());
  sums.note(2 * kPage, block.bytes());
  const auto bit = *rc::gen::inRange<std::size_t>(0, 4 * kPage * 8);
  block.data()[bit / 8] ^= std::byte{1} << (bit % 8);
  RC_ASSERT(sums.first_wrong(2 * kPage, block.bytes()) == static_cast<std::int64_t>((2 + bit / 8 / kPage) * kPage));
}

TEST(PageSums, CostMemoryForNotedPagesOnly) {
  const std::int64_t before = resident_bytes();
  PageSums sums(std::int64_t{1} << 40);
  const Allocation page = filled_pages(kPage, 1);
  sums.note((std::int64_t{1} << 40) - kPage, page.bytes());
  EXPECT_EQ(sums.first_wrong((std::int64_t{1} << 40) - kPage, page.bytes()), -1);
  EXPECT_LT(resident_bytes() - before, 16 << 20) << "of 2 GiB of sums, one page is resident";
}

TEST(PageSums, PlacesOutsideAreOurBug) {
  PageSums sums(4 * kPage);
  const Allocation block = filled_pages(2 * kPage, 1);
  EXPECT_THROW(sums.note(3 * kPage, block.bytes()), InternalError);
  EXPECT_THROW(sums.first_wrong(-4096, block.bytes()), InternalError);
}

}  // namespace
}  // namespace zero
