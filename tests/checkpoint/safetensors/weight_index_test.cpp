#include "zero/checkpoint/safetensors/weight_index.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

WeightMap parse(std::string_view text) {
  return parse_weight_index(text, "m.index.json");
}

std::string refusal(std::string_view text) {
  const auto message = message_of<IoError>([&] { parse(text); });
  EXPECT_TRUE(message.starts_with("m.index.json: verify: ")) << message;
  EXPECT_LT(message.size(), 400u);
  return message;
}

// The refusal of an index whose only tensor has this file name, as JSON.
std::string refusal_of_name(const std::string& name) {
  return refusal(R"({"weight_map": {"a": ")" + name + "\"}}");
}

std::string index_of(int num_files) {
  std::string map;
  for (int i = 0; i < num_files; ++i) map += fmt::format("{}\"t{}\": \"f{}\"", i == 0 ? "" : ", ", i, i);
  return "{\"weight_map\": {" + map + "}}";
}

TEST(WeightIndex, MapsTensorsToFiles) {
  const WeightMap files{{"a", "1.safetensors"}, {"b", "1.safetensors"}, {"c", "..2"}};
  const std::string map = R"("weight_map": {"a": "1.safetensors", "b": "1.safetensors", "c": "..2"})";
  EXPECT_EQ(parse("{" + map + "}"), files);
  EXPECT_EQ(parse(R"({"metadata": {"total_size": 12, "more": [1, "x"]}, )" + map + "}\n"), files);
}

TEST(WeightIndex, NamesNoFileOutsideItsFolder) {
  for (const std::string name : {"../1", "inner/1", "/etc/passwd", "..", ".", "", "1/"})
    EXPECT_TRUE(says(refusal_of_name(name), "\"" + name + "\" is not the name of a file in its own folder"));
  EXPECT_TRUE(says(refusal_of_name(R"(\u002e\u002e)"), R"(".." is not the name)"));
}

TEST(WeightIndex, RefusesFileNamesWithZeroBytes) {
  EXPECT_TRUE(says(refusal_of_name(R"(1.safetensors\u0000.txt)"),
                   R"("1.safetensors\u0000.txt" is not the name of a file in its own folder)"));
  EXPECT_TRUE(says(refusal_of_name(R"(\u0000)"), R"("\u0000" is not the name of a file in its own folder)"));
}

TEST(WeightIndex, NamesNoMoreFilesThanAllowed) {
  EXPECT_EQ(parse(index_of(1000)).size(), 1000u);
  EXPECT_TRUE(says(refusal(index_of(1001)), "names 1001 files; 1000 are allowed"));
}

TEST(WeightIndex, MayNameMoreTensorsThanFiles) {
  std::string map;
  for (int i = 0; i < 5000; ++i) map += fmt::format("{}\"t{}\": \"f{}\"", i == 0 ? "" : ", ", i, i % 3);
  EXPECT_EQ(parse("{\"weight_map\": {" + map + "}}").size(), 5000u);
}

TEST(WeightIndex, OneThatIsNoneIsRefused) {
  EXPECT_TRUE(says(refusal(""), "is not JSON"));
  EXPECT_TRUE(says(refusal("weights"), "is not JSON"));
  EXPECT_TRUE(says(refusal("[]"), "another value in place of an object"));
  EXPECT_TRUE(says(refusal(R"({"metadata": {}})"), "has no \"weight_map\""));
  EXPECT_TRUE(says(refusal(R"({"weight_map": {}})"), "is not an object of tensors"));
  EXPECT_TRUE(says(refusal(R"({"weight_map": ["a"]})"), "is not an object of tensors"));
  EXPECT_TRUE(says(refusal(R"({"weight_map": {"a": 1}})"), R"(the file of "a" is not a text)"));
  EXPECT_TRUE(says(refusal(R"({"weight_map": {"a\u0000b": 1}})"), R"(the file of "a\u0000b" is not a text)"));
  EXPECT_TRUE(says(refusal(R"({"weight_map": {"a": "1"}, "more": 1})"), "has an unknown \"more\""));
  EXPECT_TRUE(says(refusal(R"({"weight_map": {"a": "1"}, "metadata": 12})"), "its metadata is not an object"));
  EXPECT_TRUE(says(refusal(R"({"weight_map": {"a": "1", "a": "2"}})"), "\"a\" occurs twice"));
}

}  // namespace
}  // namespace zero
