#include "app/data/token_text.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using Tokens = std::vector<std::int64_t>;

TEST(TokenText, BytesAreTheirOwnTokens) {
  const TokenText text = TokenText::of(DataKind::kText, "");
  EXPECT_TRUE(text.is_text());
  EXPECT_EQ(text.read("a\xFF"), (Tokens{97, 255}));
  EXPECT_EQ(text.show(97), "a");
}

TEST(TokenText, TokensWithoutATokenizerAreNumbers) {
  const TokenText text = TokenText::of(DataKind::kTokens, "");
  EXPECT_FALSE(text.is_text());
  EXPECT_EQ(text.read(" 12 7"), (Tokens{12, 7}));
  EXPECT_EQ(text.show(12), "12 ");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { text.read("12 to be"); }), "--prompt"));
}

TEST(TokenText, ATokenizerMakesThemText) {
  const TemporaryFolder folder;
  BytePairTokenizer::learn("to be or not to be, to be", 260).write(folder.path());
  const TokenText text = TokenText::of(DataKind::kTokens, folder.path());
  EXPECT_TRUE(text.is_text());
  const Tokens tokens = text.read("to be");
  EXPECT_LT(tokens.size(), 5U);
  std::string shown;
  for (const std::int64_t token : tokens) shown += text.show(token);
  EXPECT_EQ(shown, "to be");
}

}  // namespace
}  // namespace zero
