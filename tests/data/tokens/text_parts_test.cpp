#include "app/data/tokens/text_parts.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Tokens = std::vector<std::int64_t>;

BytePairTokenizer published(const std::string& name) {
  return BytePairTokenizer::read(std::filesystem::path(built::kSourceFolder) / "tests/data/hugging_face" / name, "key");
}

// The parts of a text of at most `most` bytes.
std::vector<std::string> parts_of(const std::string& text, const BytePairTokenizer* tokenizer, std::int64_t most) {
  const TemporaryFolder folder;
  TextParts parts(folder.write("a.txt", text).string(), tokenizer, most);
  std::vector<std::string> found;
  for (std::string part; parts.next(part);) found.push_back(part);
  return found;
}

void expect_same_tokens(const std::string& text, const BytePairTokenizer& tokenizer, std::int64_t most) {
  Tokens tokens;
  std::string together;
  for (const std::string& part : parts_of(text, &tokenizer, most)) {
    tokenizer.encode(part, tokens, /*begins=*/together.empty());
    together += part;
  }
  EXPECT_EQ(together, text);
  EXPECT_EQ(tokens, tokenizer.encode(text)) << text << " in parts of " << most;
}

// Llama 3's expression joins line ends to what precedes them: ".\n", "\r\n" and "\n\n" are pieces.
TEST(TextParts, HaveTheTokensOfTheWhole) {
  for (const char* const name : {"gpt2", "llama3"}) {
    const auto tokenizer = published(name);
    for (const std::string line : {"to be.\n", "to be.\r\n", "to be\r\n", "to be\n\n", "{\"to\": \"be\"}\n", "一二。\n",
                                   "it's 1234 - or not!\n\n\n", "naïve   \n", "a.\n\n  b\n"}) {
      std::string text;
      while (text.size() < 100) text += line;
      for (std::int64_t most = 24; most < 64; ++most) expect_same_tokens(text, tokenizer, most);
    }
  }
}

TEST(TextParts, EndBeforeLineEnds) {
  const auto tokenizer = published("llama3");
  EXPECT_EQ(parts_of("to be.\nor not\nto be\n", &tokenizer, 16),
            (std::vector<std::string>{"to be.\nor not", "\nto be\n"}));
  EXPECT_EQ(parts_of("to be\r\nor not", &tokenizer, 9), (std::vector<std::string>{"to be", "\r\nor not"}));
  EXPECT_EQ(parts_of("to be.\nor.\n", &tokenizer, 10), (std::vector<std::string>{"to be.\nor", ".\n"}));
  EXPECT_EQ(parts_of("aaaaaa", &tokenizer, 4), (std::vector<std::string>{"aaaa", "aa"})) << "no place is certain";
  EXPECT_EQ(parts_of("a.\nb", nullptr, 3), (std::vector<std::string>{"a.", "\nb"}));
}

}  // namespace
}  // namespace zero
