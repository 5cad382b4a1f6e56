#include "zero/data/token_file.h"

#include <gtest/gtest.h>

#include "zero/data/token_stream.h"

#include "../temporary_folder.h"

namespace zero {
namespace {

using Tokens = std::vector<std::int64_t>;

TEST(TokenFile, ReadsBackAsItWasWrittenInEitherWidth) {
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

}  // namespace
}  // namespace zero
