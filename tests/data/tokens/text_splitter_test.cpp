#include "app/data/tokens/text_splitter.h"

#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text, std::string_view expression = TextSplitter::kGpt2) {
  Pieces pieces;
  TextSplitter(expression).split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(TextSplitter, CutsAsGpt2Does) {
  EXPECT_EQ(split("It's 42, she'll say"), (Pieces{"It", "'s", " 42", ",", " she", "'ll", " say"}));
  EXPECT_EQ(split("a  b\n\n c"), (Pieces{"a", " ", " b", "\n\n", " c"})) << "the last space belongs to the word";
  EXPECT_EQ(split("naïve Ωmega 一二"), (Pieces{"naïve", " Ωmega", " 一二"})) << "letters of any script";
  EXPECT_EQ(split(""), Pieces{});
}

TEST(TextSplitter, LosesNoByte) {
  for (const std::string text : {"\xFF\xFE", "a\xC3", "\xC3\xA9\xFF tail", "ok \x80\x80 ok"}) {
    std::string together;
    for (const std::string& piece : split(text)) together += piece;
    EXPECT_EQ(together, text);
  }
  EXPECT_EQ(split("ab12cd", "[0-9]+"), (Pieces{"ab", "12", "cd"})) << "text without a match is also a piece";
}

TEST(TextSplitter, RefusesInvalidExpressions) {
  const std::string message = message_of<ConfigError>([] { TextSplitter("(a", "data.tokenizer", "x/tokenizer.json"); });
  EXPECT_TRUE(says(message, "x/tokenizer.json")) << message;
  EXPECT_TRUE(says(message, "regular expression is refused at character 2")) << message;
}

}  // namespace
}  // namespace zero
