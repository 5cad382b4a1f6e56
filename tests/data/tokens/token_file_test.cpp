#include "app/data/tokens/token_file.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/data/tokens/token_stream.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using Tokens = std::vector<std::int64_t>;

TEST(TokenFile, ReadsBackInEitherWidth) {
  const TemporaryFolder folder;
  for (const std::int64_t vocab : {300, 65536, 128256}) {
    const auto path = folder.path() / std::to_string(vocab);
    TokenFileWriter writer(path, vocab);
    writer.append(Tokens{1, 2, vocab - 1});
    writer.append(Tokens{0});
    EXPECT_EQ(writer.size(), 4);
    EXPECT_FALSE(std::filesystem::exists(path)) << "only when it is finished";
    writer.finish();
    const TokenStream stream(path, TokenKind::kTokens);
    EXPECT_EQ(stream.layout().format, vocab > 65536 ? "llm.c uint32" : "llm.c uint16");
    Tokens read(4);
    stream.read(0, read);
    EXPECT_EQ(read, (Tokens{1, 2, vocab - 1, 0}));
  }
}

TEST(TokenFile, WhatIsNotFinishedLeavesNothing) {
  const TemporaryFolder folder;
  { TokenFileWriter writer(folder.path() / "a.bin", 10); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenShardWriter, CutsTokensIntoEqualFiles) {
  const TemporaryFolder folder;
  const auto read_all = [](const std::filesystem::path& path) {
    const TokenStream stream(path, TokenKind::kTokens);
    Tokens tokens(static_cast<std::size_t>(stream.size()));
    stream.read(0, tokens);
    return tokens;
  };
  TokenShardWriter writer(folder / "t.bin", 300, 3);
  writer.append(Tokens{1, 2});
  writer.append(Tokens{3, 4, 5, 6, 7});
  EXPECT_EQ(writer.num_shards(), 3);
  EXPECT_FALSE(std::filesystem::exists(folder / "t_000001.bin")) << "a pattern would find a part of them";
  writer.finish();
  EXPECT_EQ(writer.size(), 7);
  EXPECT_EQ(folder.num_files(), 3u);
  EXPECT_EQ(read_all(folder / "t_000001.bin"), (Tokens{1, 2, 3}));
  EXPECT_EQ(read_all(folder / "t_000002.bin"), (Tokens{4, 5, 6}));
  EXPECT_EQ(read_all(folder / "t_000003.bin"), (Tokens{7}));
}

TEST(TokenShardWriter, WhatIsNotFinishedLeavesNothing) {
  const TemporaryFolder folder;
  {
    TokenShardWriter writer(folder / "t.bin", 300, 2);
    writer.append(Tokens{1, 2, 3, 4, 5});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenShardWriter, RefusesIfOlderShardsExist) {
  const TemporaryFolder folder;
  folder.write("t_00001.bin", "");
  folder.write("t_000001.txt", "");
  folder.write("t_00000a.bin", "");
  EXPECT_NO_THROW(TokenShardWriter::require_free(folder / "t.bin", "-o"));
  folder.write("t_000009.bin", "");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { TokenShardWriter::require_free(folder / "t.bin", "-o"); }),
                   "t_000009.bin is a shard of that name"));
}

}  // namespace
}  // namespace zero
