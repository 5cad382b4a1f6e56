#include "app/data/images/gzip.h"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "tests/data/make_files.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

std::string unpacked(std::string_view file, std::size_t limit = 1 << 20) {
  const auto bytes = gunzip(std::as_bytes(std::span(file)), limit, "data.path", "x.gz");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refusal(std::string_view file) {
  return message_of<ConfigError>([&] { unpacked(file); });
}

RC_GTEST_PROP(Gunzip, GivesBackWhatWasCompressed, (const std::string& contents)) {
  RC_ASSERT(unpacked(gzipped(contents)) == contents);
}

TEST(Gunzip, ContentsMayExceedTheFirstBlock) {
  std::string contents;
  for (int i = 0; i < 100'000; ++i) contents.push_back(static_cast<char>(i * i));
  EXPECT_EQ(unpacked(gzipped(contents)), contents);
}

TEST(Gunzip, StopsAtTheLimit) {
  const std::string file = gzipped(std::string(1'000'000, 'a'));
  EXPECT_EQ(unpacked(file, 10), std::string(10, 'a'));
  EXPECT_EQ(unpacked(file, 0), "");
}

TEST(Gunzip, MembersFollowEachOther) {
  EXPECT_EQ(unpacked(gzipped("one, ") + gzipped("two")), "one, two");
}

TEST(Gunzip, EveryTruncationIsDetected) {
  const std::string file = gzipped("some text that is compressed");
  for (std::size_t size = 2; size < file.size(); ++size)
    EXPECT_TRUE(says(refusal(file.substr(0, size)), "damaged gzip file")) << size;
}

TEST(Gunzip, AWrongChecksumIsDetected) {
  std::string file = gzipped("some text that is compressed");
  file[file.size() - 8] ^= 1;
  EXPECT_TRUE(says(refusal(file), "data.path = x.gz: damaged gzip file: incorrect data check"));
}

TEST(Gunzip, WhatFollowsTheEndIsRefused) {
  EXPECT_TRUE(says(refusal(gzipped("text") + "more"), "something else follows its end"));
}

TEST(IsGzip, LooksAtTheFirstTwoBytes) {
  const auto is = [](std::string_view file) { return is_gzip(std::as_bytes(std::span(file))); };
  EXPECT_TRUE(is(gzipped("")));
  EXPECT_FALSE(is(""));
  EXPECT_FALSE(is("\x1f"));
  EXPECT_FALSE(is("text"));
}

}  // namespace
}  // namespace zero
