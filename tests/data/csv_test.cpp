#include "zero/data/csv.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error.h"

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace zero {
namespace {

CsvTable parse(std::string_view text) {
  return parse_csv(text, "data.path", "house.csv");
}

std::string refusal(std::string_view text) {
  return message_of<ConfigError>([&] { parse(text); });
}

TEST(Csv, ReadsNumbersRowByRow) {
  const auto table = parse("1,2.5,-3\n4e2,.5,+6\n");
  EXPECT_TRUE(table.names.empty());
  EXPECT_EQ(table.num_columns, 3);
  EXPECT_EQ(table.num_rows(), 2);
  EXPECT_EQ(table.values, (std::vector<float>{1, 2.5f, -3, 400, 0.5f, 6}));
}

TEST(Csv, AFirstLineOfWordsIsAHeader) {
  const auto table = parse("width, height ,price\n1,2,3");
  EXPECT_EQ(table.names, (std::vector<std::string>{"width", "height", "price"}));
  EXPECT_EQ(table.num_rows(), 1);
}

TEST(Csv, AFirstLineOfWordsAndNumbersIsAMistake) {
  EXPECT_TRUE(says(refusal("1,oops,3\n1,2,3\n"), "house.csv:1: column 2 holds 'oops'"));
  EXPECT_TRUE(says(refusal("a,,c\n1,2,3\n"), "house.csv:1: column 1 holds 'a'"));
  EXPECT_TRUE(says(refusal("nan,inf\n1,2\n"), "house.csv:1: column 1 holds 'nan'"));
}

TEST(Csv, IgnoresSpacesEmptyLinesCarriageReturnsAndTheByteOrderMark) {
  const auto table = parse("\xef\xbb\xbf 1 ,\t2\r\n\r\n  \n3,4\r\n\n");
  EXPECT_EQ(table.values, (std::vector<float>{1, 2, 3, 4}));
}

TEST(Csv, RaggedRowsAreNamedByLine) {
  EXPECT_TRUE(says(refusal("a,b\n\n1,2\n1,2,3\n"), "data.path = house.csv:4: has 3 columns; the lines before have 2"));
  EXPECT_TRUE(says(refusal("1,2\n3\n"), "house.csv:2: has 1 column"));
  EXPECT_TRUE(says(refusal("1,2\n3,4,\n"), "house.csv:2: has 3 columns"));
}

TEST(Csv, WhatIsNotAFiniteNumberIsNamedByLineAndColumn) {
  for (const char* const field :
       {"x", "", "1 2", "0x10", "1,5e", "\"1\"", "nan", "inf", "-inf", "1e39", "1e999", "+-1", "--1"})
    EXPECT_TRUE(says(refusal(std::string("1,2\n3,") + field + "\n"), "house.csv:2: ")) << field;
  EXPECT_TRUE(says(refusal("1,2\n3,4.0x\n"), "column 2 holds '4.0x', which is not a finite number"));
}

TEST(Csv, OneColumnIsTooFew) {
  EXPECT_TRUE(says(refusal("1\n2\n"), "house.csv:1: has one column"));
  EXPECT_TRUE(says(refusal("1;2\n3;4\n"), "Separate columns with commas"));
}

TEST(Csv, AFileWithoutRowsIsRefused) {
  EXPECT_TRUE(says(refusal(""), "data.path = house.csv: the file is empty"));
  EXPECT_TRUE(says(refusal("\n\n"), "holds no row of numbers"));
  EXPECT_TRUE(says(refusal("a,b\n"), "holds no row of numbers"));
}

TEST(Csv, AMessageStaysShort) {
  EXPECT_LT(refusal("1,2\n3," + std::string(100'000, 'x')).size(), 400u);
}

TEST(Csv, ReadsFiles) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_csv(folder.write("t.csv", "1,2\n"), "data.path").num_rows(), 1);
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { read_csv(folder.write("e.csv", ""), "data.path"); }), "the file is empty"));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { read_csv(folder / "none.csv", "data.path"); }), "no such file"));
}

RC_GTEST_PROP(Csv, FloatsSurviveTheirShortestText, (std::vector<float> values)) {
  RC_PRE(!values.empty());
  std::string text;
  for (const float value : values) text += fmt::format("{},{}\n", value, -value);
  const auto table = parse(text);
  RC_ASSERT(table.num_rows() == static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) RC_ASSERT(table.values[2 * i] == values[i]);
}

}  // namespace
}  // namespace zero
