#include "app/data/tokens/token_stream.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

TokenLayout layout_of(std::string_view file, TokenKind kind = TokenKind::kTokens) {
  return parse_token_layout(std::as_bytes(std::span(file.substr(0, kTokenHeadBytes))), std::ssize(file), kind,
                            "data.path", "train.bin");
}

std::string refusal(std::string_view file, TokenKind kind = TokenKind::kTokens) {
  return message_of<ConfigError>([&] { layout_of(file, kind); });
}

std::vector<std::int64_t> all_of(const TokenStream& stream) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  return tokens;
}

TEST(TokenStream, TextIsItsBytes) {
  const TemporaryFolder folder;
  const TokenStream stream(folder.write("input.txt", "Az\n\xc3\xa9"), TokenKind::kText);
  EXPECT_EQ(stream.layout().format, "text");
  EXPECT_EQ(all_of(stream), (std::vector<std::int64_t>{65, 122, 10, 0xc3, 0xa9}));
}

TEST(TokenStream, TextMayLookLikeAnything) {
  EXPECT_EQ(layout_of(llmc_header(20240520, 1, 0), TokenKind::kText).num_tokens, 1024);
  EXPECT_EQ(layout_of("PK\3\4", TokenKind::kText).format, "text");
}

TEST(TokenStream, ReadsTwoByteLlmcFiles) {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> tokens = {50256, 0, 1, 65535};
  const TokenStream stream(folder.write("train.bin", llmc_header(20240520, 1, 4) + raw_tokens<std::uint16_t>(tokens)),
                           TokenKind::kTokens);
  EXPECT_EQ(stream.layout().format, "llm.c uint16");
  EXPECT_EQ(all_of(stream), tokens);
}

TEST(TokenStream, ReadsFourByteLlmcFiles) {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> tokens = {128'000, 0, 4'294'967'295};
  const TokenStream stream(folder.write("train.bin", llmc_header(20240801, 7, 3) + raw_tokens<std::uint32_t>(tokens)),
                           TokenKind::kTokens);
  EXPECT_EQ(stream.layout().format, "llm.c uint32");
  EXPECT_EQ(all_of(stream), tokens);
}

TEST(TokenStream, ReadsNanogptFiles) {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> tokens = {198, 50256, 7};
  const TokenStream stream(folder.write("train.bin", raw_tokens<std::uint16_t>(tokens)), TokenKind::kTokens);
  EXPECT_EQ(stream.layout().format, "nanoGPT uint16");
  EXPECT_EQ(all_of(stream), tokens);
}

TEST(TokenStream, ReadsAnyPart) {
  const TemporaryFolder folder;
  const TokenStream stream(folder.write("train.bin", raw_tokens<std::uint16_t>({1, 2, 3, 4, 5})), TokenKind::kTokens);
  std::vector<std::int64_t> part(2);
  stream.read(2, part);
  EXPECT_EQ(part, (std::vector<std::int64_t>{3, 4}));
  stream.read(5, {});
  EXPECT_THROW(stream.read(4, part), InternalError);
  EXPECT_THROW(stream.read(-1, part), InternalError);
}

// More than one read buffer, from positions that are no multiple of it.
TEST(TokenStream, ReadsAnyLength) {
  const TemporaryFolder folder;
  std::vector<std::int64_t> tokens(100'000);
  std::iota(tokens.begin(), tokens.end(), 7);
  const TokenStream stream(
      folder.write("train.bin", llmc_header(20240801, 7, 100'000) + raw_tokens<std::uint32_t>(tokens)),
      TokenKind::kTokens);
  EXPECT_EQ(all_of(stream), tokens);
  std::vector<std::int64_t> part(50'001);
  stream.read(49'999, part);
  EXPECT_EQ(part, std::vector<std::int64_t>(tokens.begin() + 49'999, tokens.end()));
}

TEST(TokenStream, ShrunkenFileNamesBothSizes) {
  const TemporaryFolder folder;
  const auto path = folder.write("train.bin", llmc_header(20240520, 1, 4) + raw_tokens<std::uint16_t>({1, 2, 3, 4}));
  const TokenStream stream(path, TokenKind::kTokens);
  ASSERT_EQ(::truncate(path.c_str(), 1024 + 4), 0);
  std::vector<std::int64_t> part(2);
  stream.read(0, part);
  EXPECT_EQ(part, (std::vector<std::int64_t>{1, 2}));
  const std::string message = message_of<IoError>([&] { stream.read(1, part); });
  EXPECT_TRUE(says(message, path.string() + ": read of 2 bytes at 1028: "));
  EXPECT_TRUE(says(message, "it ended after 1028 bytes, and it had 1032 when it was opened"));
}

TEST(TokenStream, IgnoresAppendedBytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("train.bin", raw_tokens<std::uint16_t>({1, 2}));
  const TokenStream stream(path, TokenKind::kTokens);
  ASSERT_EQ(::truncate(path.c_str(), 1000), 0);
  EXPECT_EQ(all_of(stream), (std::vector<std::int64_t>{1, 2}));
}

TEST(TokenLayout, HeaderShowsItForAnySize) {
  const std::string head = llmc_header(20240520, 1, 2'000'000'000);
  const auto bytes = std::as_bytes(std::span(head));
  EXPECT_EQ(parse_token_layout(bytes, 4'000'001'024, TokenKind::kTokens, "data.path", "train.bin").num_tokens,
            2'000'000'000);
  EXPECT_THROW(parse_token_layout(bytes.first(1000), 4'000'001'024, TokenKind::kTokens, "data.path", "train.bin"),
               InternalError);
}

TEST(TokenLayout, AnEmptyFileIsRefused) {
  EXPECT_TRUE(says(refusal(""), "data.path = train.bin: the file is empty"));
  EXPECT_TRUE(says(refusal("", TokenKind::kText), "the file is empty"));
}

TEST(TokenLayout, CountMustMatchTheSize) {
  const std::string four = raw_tokens<std::uint16_t>({1, 2, 3, 4});
  EXPECT_TRUE(says(refusal(llmc_header(20240520, 1, 5) + four), "announces 5 tokens, but 8 bytes follow (needed: 10)"));
  EXPECT_TRUE(says(refusal(llmc_header(20240520, 1, 3) + four), "announces 3 tokens"));
  EXPECT_TRUE(says(refusal(llmc_header(20240801, 7, 4) + four), "needed: 16"));
  EXPECT_TRUE(says(refusal(llmc_header(20240520, 1, -1)), "announces -1 tokens"));
  EXPECT_TRUE(says(refusal(llmc_header(20240520, 1, 2147483647)), "needed: 4294967294"));
}

TEST(TokenLayout, VersionMustMatchTheMagic) {
  EXPECT_TRUE(says(refusal(llmc_header(20240520, 7, 0)), "llm.c version 7; expected 1 for magic 20240520"));
  EXPECT_TRUE(says(refusal(llmc_header(20240801, 1, 0)), "llm.c version 1; expected 7"));
}

TEST(TokenLayout, AHeaderCutShortIsNamed) {
  EXPECT_TRUE(says(refusal(llmc_header(20240520, 1, 0).substr(0, 1023)), "cut short: 1023 bytes"));
  EXPECT_TRUE(says(refusal(llmc_header(20240520, 1, 0).substr(0, 4)), "cut short: 4 bytes"));
}

TEST(TokenLayout, OtherFormatsAreRefusedByName) {
  EXPECT_TRUE(says(refusal(llmc_header(20240326, 3, 0)), "is an llm.c model, not a file of tokens"));
  EXPECT_TRUE(says(refusal(llmc_header(20240327, 1, 0)), "llm.c debug state"));
  EXPECT_TRUE(says(refusal(llmc_header(20240328, 1, 0)), "llm.c tokenizer"));
  EXPECT_TRUE(says(refusal(llmc_header(20240522, 1, 0)), "llm.c evaluation set"));
  EXPECT_TRUE(says(refusal(llmc_header(20240527, 1, 0)), "llm.c training state"));
  EXPECT_TRUE(says(refusal(llmc_header(20240803, 1, 0)), "llm.c Llama 3 model"));
  EXPECT_TRUE(says(refusal(std::string("MMIDIDX\0\0\1", 10)), "a Megatron index"));
  EXPECT_TRUE(says(refusal(gzipped("tokens")), "gzip-compressed"));
  EXPECT_TRUE(says(refusal("PK\3\4...."), "a zip archive"));
}

TEST(TokenLayout, AnOddSizeSuggestsText) {
  EXPECT_TRUE(says(refusal("abc"), "has 3 bytes, an odd number"));
  EXPECT_TRUE(says(refusal("abc"), "data.kind = \"text\""));
}

TEST(TokenStream, MissingFileNamesItsKey) {
  EXPECT_TRUE(says(message_of<ConfigError>([] { TokenStream("none.bin", TokenKind::kTokens, "data.validation"); }),
                   "data.validation = none.bin: no such file"));
  EXPECT_TRUE(
      says(message_of<ConfigError>([] { TokenStream("/tmp", TokenKind::kText); }), "data.path = /tmp: is a folder"));
}

}  // namespace
}  // namespace zero
