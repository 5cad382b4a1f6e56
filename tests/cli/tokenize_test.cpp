// `zero tokenize` on the command line.
#include <filesystem>

#include <gtest/gtest.h>

#include "app/data/tokens/byte_pair_tokenizer.h"
#include "app/data/tokens/token_shards.h"
#include "tests/cli/command.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i % 100) + ": to be, or not to be\n\n";
  return text;
}

TEST(Tokenize, LearnsATokenizerAndWritesTokens) {
  const Folder folder;
  const std::string text = lines(3000);
  folder.write("a.txt", text);
  const Ran ran = folder.zero("tokenize a.txt --learn tok --size 400 -o a.bin");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "tok: 368 tokens")) << ran.output;
  EXPECT_TRUE(says(ran.output, "[model] vocab = 368")) << ran.output;
  const auto tokenizer = BytePairTokenizer::read(folder.path() / "tok", "tokenizer");
  const TokenStream stream(folder.path() / "a.bin", TokenKind::kTokens);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  EXPECT_EQ(tokenizer.decode(tokens), text);
  EXPECT_LT(stream.size(), std::ssize(text) / 2);

  const Ran again = folder.zero("tokenize a.txt a.txt --tokenizer tok -o b.bin");
  ASSERT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(TokenStream(folder.path() / "b.bin", TokenKind::kTokens).size(), 2 * stream.size());
}

TEST(Tokenize, FindsAddedTokensByName) {
  const Folder folder;
  const auto published = std::filesystem::path(built::kSourceFolder) / "tests/data/hugging_face/gpt2";
  folder.write("a.txt", "to be<|endoftext|>or not<|endoftext|>");
  const auto tokens_of = [&](const std::string& flags) {
    const Ran ran = folder.zero("tokenize a.txt --tokenizer '" + published.string() + "' -o a.bin " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    EXPECT_EQ(ran.output.find("2 added tokens were named in the texts; --specials text") != std::string::npos,
              flags.empty())
        << ran.output;
    const TokenStream stream(folder.path() / "a.bin", TokenKind::kTokens);
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(stream.size()));
    stream.read(0, tokens);
    return tokens;
  };
  const auto tokenizer = BytePairTokenizer::read(published, "tokenizer");
  EXPECT_EQ(tokenizer.count_added(tokens_of("")), 2);
  EXPECT_EQ(tokenizer.count_added(tokens_of("--specials text")), 0);
  const Ran wrong = folder.zero("tokenize a.txt --tokenizer tok -o a.bin --specials none");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(says(wrong.errors, "--specials: none not in {tokens,text}\n  see `zero tokenize --help`"))
      << wrong.errors;
}

// If long text were cut at any byte, a part could end within a word.
TEST(Tokenize, LongTextHasSameTokens) {
  const Folder folder;
  const std::string text = lines(700'000);  // more than 16 MiB
  folder.write("long.txt", text);
  folder.write("short.txt", lines(100));
  ASSERT_EQ(folder.zero("tokenize short.txt --learn tok --size 300").status, 0);
  ASSERT_EQ(folder.zero("tokenize long.txt --tokenizer tok -o long.bin").status, 0);
  const auto tokenizer = BytePairTokenizer::read(folder.path() / "tok", "tokenizer");
  const TokenStream stream(folder.path() / "long.bin", TokenKind::kTokens);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  EXPECT_EQ(tokens, tokenizer.encode(text));
}

TEST(Tokenize, ShardsHoldAllTokens) {
  const Folder folder;
  folder.write("a.txt", lines(500));
  const Ran whole = folder.zero("tokenize a.txt --learn tok --size 300 -o a.bin");
  ASSERT_EQ(whole.status, 0) << whole.errors;
  const Ran ran = folder.zero("tokenize a.txt --tokenizer tok -o s.bin --shard-tokens 1000");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "s_000001.bin to s_00000")) << ran.output;
  const auto read_all = [&](const std::string& path) {
    const DataFiles files = with_patterns_expanded((folder.path() / path).string(), "path");
    const TokenShards shards(files, TokenKind::kTokens, "path");
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(shards.size()));
    shards.read(0, tokens);
    return tokens;
  };
  EXPECT_EQ(read_all("s_*.bin"), read_all("a.bin"));
  EXPECT_EQ(TokenStream(folder.path() / "s_000001.bin", TokenKind::kTokens).size(), 1000);

  const Ran again = folder.zero("tokenize a.txt --tokenizer tok -o s.bin --shard-tokens 5000");
  EXPECT_EQ(again.status, 2);
  EXPECT_TRUE(says(again.errors, "is a shard of that name")) << again.errors;
}

TEST(Tokenize, BadInputWritesNothing) {
  const Folder folder;
  folder.write("a.txt", "abc");
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const Ran ran = folder.zero("tokenize " + arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_TRUE(says(ran.errors, why)) << ran.errors;
  };
  refused("a.txt -o a.bin", "no tokenizer is named");
  refused("a.txt --tokenizer nowhere -o a.bin", "neither vocab.json and merges.txt nor tokenizer.json");
  refused("c.txt --learn tok", "c.txt");
  refused("a.txt --learn tok --size 3", "--size");
  refused("a.txt --learn tok -o a.bin --document-end '<|end|>'",
          "a tokenizer that is learned has no token of this name");
  refused("a.txt --learn tok -o a.txt", "-o = a.txt: exists already, and is not a file of tokens");
  EXPECT_EQ(folder.read("a.txt"), "abc");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "tok"));
  ASSERT_EQ(folder.zero("tokenize a.txt --learn tok --size 256").status, 0);
  ASSERT_EQ(folder.zero("tokenize a.txt --learn tok --size 256 -o a.bin").status, 0) << "the same tokenizer";
  ASSERT_EQ(folder.zero("tokenize a.txt --tokenizer tok -o a.bin").status, 0) << "tokens take the place of tokens";
  std::filesystem::remove(folder.path() / "a.bin");
  folder.write("b.txt", "abababab");
  const std::string merges = folder.read("tok/merges.txt");
  refused("b.txt --learn tok --size 300", "--learn = tok: the folder has another tokenizer: its vocab.json differs");
  EXPECT_EQ(folder.read("tok/merges.txt"), merges);
  folder.write("tok/merges.txt", "#version: 0.2\na b\n");
  refused("a.txt --tokenizer tok -o a.bin", "--tokenizer = tok/merges.txt: line 2 names the unknown token \"ab\"");
  folder.write("tok/merges.txt", merges);
  refused("a.txt --tokenizer tok -o a.bin --document-end '<|end|>'", "the tokenizer has added no token of this name");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.bin"));
}

}  // namespace
}  // namespace zero
