#include "app/config/options/value.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(Value, ReadsEveryKindOfToml) {
  EXPECT_EQ(parse_value("true"), Value(true));
  EXPECT_EQ(parse_value("-7"), Value(std::int64_t{-7}));
  EXPECT_EQ(parse_value("1e-3"), Value(1e-3));
  EXPECT_EQ(parse_value("\"a b\""), Value("a b"));
  EXPECT_EQ(parse_value("[1, 2.5]"), Value(Value::Array{Value(std::int64_t{1}), Value(2.5)}));
  EXPECT_TRUE(std::holds_alternative<Unsupported>(parse_value("1979-05-27").data));
  EXPECT_EQ(kind_of(parse_value("{host = 0.6}")), "a table");
}

TEST(Value, BareWordsNeedNoQuotes) {
  EXPECT_EQ(parse_value("adamw"), Value("adamw"));
  EXPECT_EQ(parse_value("64MiB"), Value("64MiB"));
  EXPECT_EQ(parse_value("/data/a file.txt"), Value("/data/a file.txt"));
  EXPECT_EQ(parse_value(""), Value(""));
}

TEST(Value, TextWithNewlinesStaysOneString) {
  EXPECT_EQ(parse_value("1\nstage = 0"), Value("1\nstage = 0"));
  EXPECT_EQ(parse_value("1\r\n[zero]"), Value("1\r\n[zero]"));
}

TEST(Value, RefusesInvalidUtf8) {
  EXPECT_NE(message_of<ConfigError>([] { (void)parse_value("\xff\xfe"); }), "");
}

TEST(Value, WritesFloatsWithShortestDigits) {
  EXPECT_EQ(to_toml(Value(1.0)), "1.0");
  EXPECT_EQ(to_toml(Value(1e-8)), "1e-08");
  EXPECT_EQ(to_toml(Value(0.1)), "0.1");
  EXPECT_EQ(to_toml(Value(-std::numeric_limits<double>::infinity())), "-inf");
}

TEST(Value, QuotesAndControlCharactersAreEscaped) {
  EXPECT_EQ(to_toml(Value("a\"b\\c\n")), "\"a\\\"b\\\\c\\u000A\"");
}

TEST(Value, WhatIsWrittenReadsBack) {
  rc::check("strings", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    RC_ASSERT(parse_value(to_toml(Value(text))) == Value(text));
  });
  rc::check("doubles", [](double number) {
    RC_PRE(std::isfinite(number));
    RC_ASSERT(parse_value(to_toml(Value(number))) == Value(number));
  });
  rc::check("arrays of integers", [](const std::vector<std::int64_t>& numbers) {
    Value::Array items;
    for (const auto number : numbers) items.emplace_back(number);
    RC_ASSERT(parse_value(to_toml(Value(items))) == Value(items));
  });
}

TEST(Shown, IsOneShortPrintableLine) {
  EXPECT_EQ(shown("a\nb\x1b[31m"), "a b [31m");
  EXPECT_EQ(shown(std::string(500, 'x')).size(), 103u);
}

TEST(Shown, CutsBetweenCharactersNotInside) {
  const std::string text = std::string(99, 'x') + "\xc3\xa9" + std::string(50, 'y');
  EXPECT_EQ(shown(text), std::string(99, 'x') + "...");
}

}  // namespace
}  // namespace zero
