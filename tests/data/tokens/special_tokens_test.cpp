#include "app/data/tokens/special_tokens.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include "app/data/tokens/byte_pair_tokenizer.h"
#include "tests/support/python_with.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Tokens = std::vector<std::int64_t>;

const fs::path kFolder = fs::path(built::kSourceFolder) / "tests/data";

// A tokenizer of hugging_face/ with additional tokens.
BytePairTokenizer with_added(const std::string& name, const Json& added, Specials specials = Specials::kTokens) {
  const TemporaryFolder folder;
  Json json = Json::parse(std::ifstream(kFolder / "hugging_face" / name / "tokenizer.json"));
  json["added_tokens"] = added;
  folder.write("tokenizer.json", json.dump());
  return BytePairTokenizer::read(folder.path(), "data.tokenizer", specials);
}

void expect_same_tokens(const fs::path& file, std::size_t least) {
  const Json all = Json::parse(std::ifstream(file));
  ASSERT_EQ(all.size(), 4U);
  for (const auto& [name, found] : all.items()) {
    const auto tokenizer = with_added(name, found.at("added_tokens"));
    EXPECT_GE(found.at("cases").size(), least);
    for (const Json& each : found.at("cases")) {
      const auto text = each.at("text").get<std::string>();
      EXPECT_EQ(tokenizer.encode(text), each.at("tokens").get<Tokens>()) << name << ": " << text;
    }
  }
}

// tests/data/special_tokens.py recorded these with tokenizers 0.23.
TEST(SpecialTokens, MatchHuggingFace) {
  expect_same_tokens(kFolder / "hugging_face/specials.json", 70);
}

TEST(SpecialTokens, OfRandomTextsAreHuggingFaces) {
  const auto python = python_with("tokenizers");
  if (!python) GTEST_SKIP() << no_python_with("tokenizers");
  const TemporaryFolder folder;
  const std::string line = *python + " '" + (kFolder / "special_tokens.py").string() + "' 7 2000 '" +
                           (folder / "random.json").string() + "'";
  ASSERT_EQ(std::system(line.c_str()), 0);
  expect_same_tokens(folder / "random.json", 2000);
}

TEST(SpecialTokens, CanBeReadAsText) {
  const Json all = Json::parse(std::ifstream(kFolder / "hugging_face/specials.json"));
  for (const auto& [name, found] : all.items()) {
    const auto tokenizer = with_added(name, found.at("added_tokens"), Specials::kText);
    const std::string text = "one<|endoftext|> <mask> two</s>";
    const Tokens tokens = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.count_added(tokens), 0) << name;
    EXPECT_EQ(tokenizer.decode(tokens), text) << name;
  }
}

TEST(SpecialTokens, AddedTokensDecodeToNames) {
  const auto added = Json::parse(R"([{"id": 500, "content": "<|x|>", "special": true},
                                     {"id": 501, "content": "zero", "special": false, "normalized": false}])");
  const auto tokenizer = with_added("gpt2", added);
  const Tokens tokens = tokenizer.encode("<|x|>zero");
  EXPECT_EQ(tokens, (Tokens{500, 501}));
  EXPECT_EQ(tokenizer.decode(tokens), "zero");
}

TEST(SpecialTokens, Gpt2FilesHaveEndOfText) {
  const auto tokenizer = BytePairTokenizer::read(kFolder / "hugging_face/gpt2/files", "data.tokenizer");
  const auto end = tokenizer.added("<|endoftext|>");
  ASSERT_TRUE(end);
  Tokens expected = tokenizer.encode("one");
  expected.push_back(*end);
  for (const std::int64_t token : tokenizer.encode("two")) expected.push_back(token);
  EXPECT_EQ(tokenizer.encode("one<|endoftext|>two"), expected);
}

// A text is cut where the tokenizer allows it. Its parts have the tokens of the whole.
RC_GTEST_PROP(SpecialTokens, AnAllowedCutChangesNone, ()) {
  static const Json all = Json::parse(std::ifstream(kFolder / "hugging_face/specials.json"));
  static const auto llama2 = with_added("llama2", all.at("llama2").at("added_tokens"));
  static const auto llama3 = with_added("llama3", all.at("llama3").at("added_tokens"));
  static const auto gpt2 = with_added("gpt2", all.at("gpt2").at("added_tokens"));
  const auto parts = *rc::gen::container<std::vector<std::string>>(
      rc::gen::element<std::string>("<mask>", "<sep>", "<|end|>", "[x\ny]", "[x", "y]", "king", "</s>", " ", "\n", "\n",
                                    "a", ".", "\r\n", "'s", "42", "é", "。"));
  std::string text;
  for (const std::string& part : parts) text += part;
  for (const BytePairTokenizer* const tokenizer : {&llama2, &llama3, &gpt2}) {
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (!tokenizer->may_cut(text, at)) continue;
      Tokens tokens;
      tokenizer->encode(std::string_view(text).substr(0, at), tokens);
      tokenizer->encode(std::string_view(text).substr(at), tokens, /*begins=*/false);
      RC_ASSERT(tokens == tokenizer->encode(text));
    }
  }
}

}  // namespace
}  // namespace zero
