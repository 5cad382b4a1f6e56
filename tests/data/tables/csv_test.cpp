#include "app/data/tables/csv.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

CsvTable parse(std::string_view text, const CsvOptions& options = {}) {
  return parse_csv(text, "data.path", "house.csv", options);
}

std::string refusal(std::string_view text, const CsvOptions& options = {}) {
  return message_of<ConfigError>([&] { parse(text, options); });
}

TEST(Csv, ReadsNumbersRowByRow) {
  const auto table = parse("1,2.5,-3\n4e2,.5,+6\n");
  EXPECT_TRUE(table.names.empty());
  EXPECT_EQ(table.num_columns, 3);
  EXPECT_EQ(table.num_rows(), 2);
  EXPECT_EQ(table.values, (std::vector<float>{1, 2.5f, -3, 400, 0.5f, 6}));
}

TEST(Csv, FirstLineOfWordsIsHeader) {
  const auto table = parse("width, height ,price\n1,2,3");
  EXPECT_EQ(table.names, (std::vector<std::string>{"width", "height", "price"}));
  EXPECT_EQ(table.num_rows(), 1);
}

TEST(Csv, MixedFirstLineIsAMistake) {
  EXPECT_TRUE(says(refusal("1,oops,3\n1,2,3\n"), "house.csv:1: column 2 holds 'oops'"));
  EXPECT_TRUE(says(refusal("a,,c\n1,2,3\n"), "house.csv:1: column 1 holds 'a'"));
  EXPECT_TRUE(says(refusal("nan,inf\n1,2\n"), "house.csv:1: column 1 holds 'nan'"));
}

// Carriage returns and the byte order mark are also ignored.
TEST(Csv, IgnoresSpacesAndEmptyLines) {
  const auto table = parse("\xef\xbb\xbf 1 ,\t2\r\n\r\n  \n3,4\r\n\n");
  EXPECT_EQ(table.values, (std::vector<float>{1, 2, 3, 4}));
}

TEST(Csv, RaggedRowsAreNamedByLine) {
  EXPECT_TRUE(says(refusal("a,b\n\n1,2\n1,2,3\n"), "data.path = house.csv:4: has 3 columns; the lines before have 2"));
  EXPECT_TRUE(says(refusal("1,2\n3\n"), "house.csv:2: has 1 column"));
  EXPECT_TRUE(says(refusal("1,2\n3,4,\n"), "house.csv:2: has 3 columns"));
}

TEST(Csv, BadNumberNamesLineAndColumn) {
  for (const char* const field :
       {"x", "", "1 2", "0x10", "1,5e", "\"1x\"", "nan", "inf", "-inf", "1e39", "1e999", "+-1", "--1"})
    EXPECT_TRUE(says(refusal(std::string("1,2\n3,") + field + "\n"), "house.csv:2: ")) << field;
  EXPECT_TRUE(says(refusal("1,2\n3,4.0x\n"), "column 2 holds '4.0x', which is not a finite number"));
}

TEST(Csv, OneColumnIsTooFew) {
  EXPECT_TRUE(says(refusal("1\n2\n"), "house.csv:1: has one column"));
  EXPECT_TRUE(says(refusal("1;2\n3;4\n"), "separate columns with commas"));
}

TEST(Csv, AFileWithoutRowsIsRefused) {
  EXPECT_TRUE(says(refusal(""), "data.path = house.csv: the file is empty"));
  EXPECT_TRUE(says(refusal("\n\n"), "holds no row of numbers"));
  EXPECT_TRUE(says(refusal("a,b\n"), "holds no row of numbers"));
}

TEST(Csv, QuotedFieldsFollowRfc4180) {
  const auto table = parse("\xef\xbb\xbf\"width, \"\"w\"\"\nin m\",price\r\n\"1\", \"2.5\" \r\n\r\n3,\"4\"");
  EXPECT_EQ(table.names, (std::vector<std::string>{"width, \"w\"\nin m", "price"}));
  EXPECT_EQ(table.values, (std::vector<float>{1, 2.5f, 3, 4}));
}

TEST(Csv, BrokenQuotesNameLineAndColumn) {
  EXPECT_TRUE(says(refusal("1,2\n\n3,\"4\n5,6\n"), "house.csv:3: column 2 opens a quote that is never closed"));
  EXPECT_TRUE(says(refusal("1,2\n\"3\"x,4\n"), "house.csv:2: column 1 has text after its closing quote"));
  EXPECT_TRUE(says(refusal("1,2\n3,4\"5\n"), "house.csv:2: column 2 has a quote within a field"));
  EXPECT_TRUE(says(refusal("a,\"b\n2\"\n\"x\",1\n"), "house.csv:3: column 1 (a) holds 'x'")) << "lines in fields count";
}

TEST(Csv, ColumnsAreChosenByName) {
  const std::string text = "id,name,width,price,height\nx1,a,1,10,2\nx2,b,3,20,4\n";
  const auto table = parse(text, {.columns = {"height", "width"}, .label_column = "price"});
  EXPECT_EQ(table.names, (std::vector<std::string>{"height", "width", "price"}));
  EXPECT_EQ(table.values, (std::vector<float>{2, 1, 10, 4, 3, 20}));
  EXPECT_EQ(parse("1,2,3\n4,5,6\n", {.label_column = "1"}).values, (std::vector<float>{2, 3, 1, 5, 6, 4}));
  EXPECT_EQ(parse(text, {.columns = {"3"}, .label_column = "price"}).values, (std::vector<float>{1, 10, 3, 20}));
}

TEST(Csv, UnknownColumnsListTheKnown) {
  const std::string text = "width,price,price\n1,2,3\n";
  EXPECT_TRUE(says(refusal(text, {.label_column = "cost"}), "data.label_column = cost: no column of house.csv has"));
  EXPECT_TRUE(
      says(refusal(text, {.label_column = "cost"}), "its columns are width, price, price; or use a number, 1 to 3"));
  EXPECT_TRUE(says(refusal(text, {.label_column = "price"}), "house.csv has several columns of this name"));
  EXPECT_TRUE(says(refusal("1,2\n", {.label_column = "3"}), "it has no header: use the column's number, 1 to 2"));
  EXPECT_TRUE(says(refusal("a,b\n1,2\n", {.columns = {"b"}}), "data.columns = b: is the column of the target"));
  EXPECT_TRUE(says(refusal("a,b\n1,2\n", {.columns = {"a", "1"}}), "data.columns = 1: is given twice"));
}

TEST(Csv, TargetWordsAreSortedClasses) {
  const auto table = parse("width,kind\n1,setosa\n2, iris \n3,\"setosa\"\n");
  EXPECT_EQ(table.classes.names, (std::vector<std::string>{"iris", "setosa"}));
  EXPECT_EQ(table.classes.labels, (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(table.values, (std::vector<float>{1, 1, 2, 0, 3, 1}));
  EXPECT_EQ(parse("1,a\n2,b\n").num_rows(), 2) << "without a header";
  EXPECT_TRUE(says(refusal("w,kind\n1,a\n2,5\n"),
                   "house.csv:3: column 2 (kind): the label '5' is a number, and 'a' is a word"));
  EXPECT_TRUE(says(refusal("w,kind\n1,a\n2,\n"), "house.csv:3: column 2 (kind): '' is not a class"));
  EXPECT_TRUE(
      says(refusal("w,kind\n1,5\n2,a\n"), "house.csv:3: column 2 (kind) holds 'a', which is not a finite number"));
}

TEST(Csv, NumbersAreClassesIfAsked) {
  EXPECT_TRUE(parse("1,0\n2,1\n").classes.labels.empty());
  const auto table = parse("1,0\n2,1\n", {.classes = true});
  EXPECT_EQ(table.classes.labels, (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(table.classes.names.empty());
  EXPECT_TRUE(says(refusal("1,0.5\n", {.classes = true}), "house.csv:1: column 2: '0.5' is not a class"));
  const auto named = parse("1,0\n2,1\n", {.labels = {.names = {"no", "yes"}}});
  EXPECT_EQ(named.classes.names, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(named.classes.labels, (std::vector<std::int64_t>{0, 1}));
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
