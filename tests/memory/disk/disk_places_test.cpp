#include "zero/memory/disk/disk_places.h"

#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "tests/memory/filled_pages.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kPage = DiskTier::kPageBytes;
constexpr std::int64_t kSlab = DiskPlaces::kSlabBytes;

class Places : public testing::Test {
 protected:
  Places() : places({.paths = {folder.path()}}, ledger, MemoryTag::kActivation) {}

  TemporaryFolder folder;
  Ledger ledger;
  DiskPlaces places;
};

TEST_F(Places, TouchNoDiskBeforeUse) {
  EXPECT_EQ(places.capacity_bytes(), 0);
  EXPECT_EQ(places.describe(), "");
  EXPECT_EQ(places.traffic().written_bytes, 0);
  places.open();
  EXPECT_EQ(places.capacity_bytes(), kSlab);
  EXPECT_NE(places.describe().find("1 path"), std::string::npos);
  places.open();
  EXPECT_EQ(places.capacity_bytes(), kSlab) << "it is open";
}

TEST_F(Places, OpenForKnownNeeds) {
  places.open(5 * kPage);
  EXPECT_EQ(places.capacity_bytes(), 5 * kPage);
  for (int i = 0; i < 5; ++i) places.take(kPage);
  EXPECT_EQ(places.capacity_bytes(), 5 * kPage);
  places.take(1);
  EXPECT_EQ(places.capacity_bytes(), 5 * kPage + kSlab) << "the capacity still grows";
}

TEST_F(Places, TakeNoMoreThanTheyMay) {
  DiskPlaces limited({.paths = {folder.path()}}, ledger, MemoryTag::kActivation, {}, 3 * kPage + 100);
  for (int i = 0; i < 3; ++i) limited.take(kPage);
  EXPECT_EQ(ledger.held(Tier::kDisk, MemoryTag::kActivation), 3 * kPage);
  const std::string message = message_of<ConfigError>([&] { limited.take(kPage); });
  EXPECT_TRUE(says(message, "zero.disk_memory")) << message;
  EXPECT_TRUE(says(message, "4096 B more")) << message;
  EXPECT_EQ(ledger.held(Tier::kDisk, MemoryTag::kActivation), 3 * kPage);
  DiskPlaces small({.paths = {folder.path()}}, ledger, MemoryTag::kActivation, {}, 2 * kPage);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { small.open(3 * kPage); }), "zero.disk_memory"));
}

TEST_F(Places, AreExclusiveWholePages) {
  const DiskPlace one = places.take(1), two = places.take(kPage + 1);
  EXPECT_EQ(one.bytes, kPage);
  EXPECT_EQ(two.bytes, 2 * kPage);
  EXPECT_EQ(one.tier, two.tier);
  EXPECT_GE(two.offset, one.offset + one.bytes);
}

TEST_F(Places, ServeAgainForTheSameSize) {
  const DiskPlace first = places.take(3 * kPage);
  places.give_back(first);
  const DiskPlace second = places.take(3 * kPage);
  EXPECT_EQ(second.offset, first.offset);
  EXPECT_NE(places.take(3 * kPage).offset, first.offset) << "it is taken";
}

TEST_F(Places, ServeForSlightlySmallerRequests) {
  const DiskPlace large = places.take(10 * kPage);
  places.give_back(large);
  const DiskPlace small = places.take(kPage);
  EXPECT_EQ(small.bytes, kPage);
  const DiskPlace half = places.take(5 * kPage);
  EXPECT_EQ(half.offset, large.offset);
  EXPECT_EQ(half.bytes, large.bytes) << "it returns with its own size";
  places.give_back(half);
  EXPECT_EQ(places.take(10 * kPage).offset, large.offset);
}

TEST_F(Places, GrowBySlabsInLedger) {
  const DiskPlace first = places.take(kSlab - kPage);
  const DiskPlace second = places.take(2 * kSlab);
  EXPECT_NE(second.tier, first.tier);
  EXPECT_EQ(places.capacity_bytes(), 3 * kSlab);
  EXPECT_EQ(places.take(kPage).tier, first.tier) << "one page of the first tier was left";
  EXPECT_EQ(ledger.held(Tier::kDisk, MemoryTag::kActivation), 3 * kSlab);
}

TEST_F(Places, LeaveNothingInTheFolder) {
  places.open();
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST_F(Places, AddUpWhatTheirSlabsMove) {
  const DiskPlace first = places.take(kSlab), second = places.take(kSlab);
  ASSERT_NE(first.tier, second.tier);
  const Allocation block = filled_pages(2 * kPage, 1), back = allocate_host(2 * kPage);
  first.tier->write(first.offset, block.bytes()).wait();
  second.tier->write(second.offset, block.bytes().first(kPage)).wait();
  first.tier->read(first.offset, back.bytes()).wait();
  EXPECT_TRUE(same_bytes(back.bytes(), block.bytes()));
  EXPECT_EQ(places.traffic().written_bytes, 3 * kPage);
  EXPECT_EQ(places.traffic().read_bytes, 2 * kPage);
}

TEST(PlacesRefused, WhereTheFolderIsMissing) {
  Ledger ledger;
  DiskPlaces places({.paths = {"/nowhere/at/all"}}, ledger, MemoryTag::kActivation);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { places.open(); }), "zero.disk"));
  EXPECT_EQ(ledger.held(Tier::kDisk), MemoryCount{});
}

// Sizes vary from step to step. The capacity stops growing, and no two blocks share a place.
RC_GTEST_PROP(PlacesProperty, SettleHoweverSizesVary, ()) {
  const TemporaryFolder folder;
  Ledger ledger;
  ScriptedDisk disk;
  DiskPlaces places({.paths = {folder.path()}}, ledger, MemoryTag::kActivation,
                    {.make_queue = [&](std::span<const int>, int) { return disk.queue(); }});
  constexpr std::int64_t kMost = 40 * kPage;
  for (int step = 0; step < 20; ++step) {
    const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(8, rc::gen::inRange<std::int64_t>(1, kMost + 1));
    std::vector<DiskPlace> taken;
    std::set<std::pair<DiskTier*, std::int64_t>> distinct;
    for (const std::int64_t bytes : sizes) {
      taken.push_back(places.take(bytes));
      RC_ASSERT(taken.back().bytes >= bytes);
      RC_ASSERT(distinct.insert({taken.back().tier, taken.back().offset}).second);
    }
    for (const DiskPlace& place : taken) places.give_back(place);
  }
  // At most eight places for each doubling of the size.
  RC_ASSERT(places.capacity_bytes() == kSlab);
}

}  // namespace
}  // namespace zero
