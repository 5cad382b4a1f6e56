#include "app/data/tokens/byte_pair_tokenizer.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Tokens = std::vector<std::int64_t>;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// All bytes, then "Ġt", "he" and "Ġthe", in GPT-2's alphabet. The numbers differ from the byte values.
nlohmann::json small_vocabulary() {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[to_alphabet(std::string(1, static_cast<char>(byte)))] = 255 - byte;
  vocabulary["Ġt"] = 256;
  vocabulary["he"] = 257;
  vocabulary["Ġthe"] = 258;
  vocabulary["<|endoftext|>"] = 259;
  return vocabulary;
}

std::string refusal(const TemporaryFolder& folder) {
  return message_of<ConfigError>([&] { BytePairTokenizer::read(folder.path(), "data.tokenizer"); });
}

TEST(ByteAlphabet, IsGpt2s) {
  EXPECT_EQ(to_alphabet(" a\n"), "ĠaĊ");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(from_alphabet(to_alphabet(one)), one) << byte;
  }
  EXPECT_FALSE(from_alphabet("€"));
  EXPECT_FALSE(from_alphabet("\xC4"));
}

constexpr std::string_view kText =
    "low low low low low lower lower newest newest newest newest newest newest widest widest widest";

TEST(BytePairTokenizer, JoinsItsFirstMergesFirst) {
  const TemporaryFolder folder;
  write(folder.path() / "vocab.json", small_vocabulary().dump());
  write(folder.path() / "merges.txt", "#version: 0.2\nĠ t\nh e\nĠt he\n");
  const auto tokenizer = BytePairTokenizer::read(folder.path(), "data.tokenizer");
  EXPECT_EQ(tokenizer.size(), 260);
  EXPECT_EQ(tokenizer.encode(" the"), Tokens{258});
  EXPECT_EQ(tokenizer.encode("the th"), (Tokens{255 - 't', 257, 256, 255 - 'h'}));
  EXPECT_EQ(tokenizer.decode(Tokens{258, 259, 257, -1, 4000}), " thehe") << "added tokens are not decoded";
  EXPECT_EQ(tokenizer.added("<|endoftext|>"), 259);
  EXPECT_EQ(tokenizer.encode("the<|endoftext|> the"), (Tokens{255 - 't', 257, 259, 258}));
}

TEST(BytePairTokenizer, TakesTokenizerJsonOfEitherForm) {
  for (const bool as_arrays : {false, true}) {
    const TemporaryFolder folder;
    const auto merges =
        nlohmann::json::parse(as_arrays ? R"([["Ġ", "t"], ["h", "e"], ["Ġt", "he"]])" : R"(["Ġ t", "h e", "Ġt he"])");
    auto vocabulary = small_vocabulary();
    vocabulary.erase("<|endoftext|>");
    const nlohmann::json json{
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}, {"ignore_merges", true}}},
        {"added_tokens", {{{"id", 300}, {"content", "<|begin_of_text|>"}}}},
        {"pre_tokenizer",
         {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", R"(\p{N}{1,3}| ?\p{L}+|\s+)"}}}, {"behavior", "Isolated"}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}}};
    write(folder.path() / "tokenizer.json", json.dump());
    const auto tokenizer = BytePairTokenizer::read(folder.path(), "data.tokenizer");
    EXPECT_EQ(tokenizer.size(), 301);
    EXPECT_EQ(tokenizer.added("<|begin_of_text|>"), 300);
    EXPECT_EQ(tokenizer.encode(" the"), Tokens{258});
    EXPECT_EQ(tokenizer.encode("1234").size(), 4U);
  }
}

TEST(BytePairTokenizer, TokenizerJsonOverridesGpt2Files) {
  const TemporaryFolder folder;
  BytePairTokenizer::learn(kText, 258).write(folder.path());
  const Tokens of_gpt2 = BytePairTokenizer::read(folder.path(), "data.tokenizer").encode("12");
  const nlohmann::json json{
      {"model", {{"type", "BPE"}, {"vocab", small_vocabulary()}, {"merges", nlohmann::json::array({"Ġ t", "h e"})}}},
      {"pre_tokenizer", {{"type", "Digits"}, {"individual_digits", true}}}};
  write(folder.path() / "tokenizer.json", json.dump());
  EXPECT_TRUE(says(refusal(folder), "does not support its pre_tokenizer")) << "it was read like GPT-2's";
  EXPECT_EQ(BytePairTokenizer::file_of(folder.path()).filename(), "tokenizer.json");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { BytePairTokenizer::learn(kText, 258).write(folder.path()); }),
                   "the folder has a tokenizer.json"));
  std::filesystem::remove(folder.path() / "tokenizer.json");
  EXPECT_EQ(BytePairTokenizer::read(folder.path(), "data.tokenizer").encode("12"), of_gpt2);
}

TEST(BytePairTokenizer, DamagedFilesAreRefusedByName) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(refusal(folder), "neither vocab.json and merges.txt nor tokenizer.json"));
  write(folder.path() / "vocab.json", small_vocabulary().dump());
  write(folder.path() / "merges.txt", "Ġ t\nx yz\n");
  EXPECT_TRUE(says(refusal(folder), "line 2 names the unknown token \"yz\""));
  write(folder.path() / "merges.txt", "Ġ t\nĠ\n");
  EXPECT_TRUE(says(refusal(folder), "line 2 is not a pair of tokens"));
  write(folder.path() / "merges.txt", "");
  write(folder.path() / "vocab.json", R"({"a": 0})");
  EXPECT_TRUE(says(refusal(folder), "no token for byte 0"));
  write(folder.path() / "vocab.json", R"({"a": "b"})");
  EXPECT_TRUE(says(refusal(folder), "has no number"));
  write(folder.path() / "vocab.json", "{");
  EXPECT_TRUE(says(refusal(folder), "vocab.json"));
  std::filesystem::remove(folder.path() / "vocab.json");
  write(folder.path() / "tokenizer.json", R"({"model": {"type": "WordPiece"}})");
  EXPECT_TRUE(says(refusal(folder), "its model is not BPE"));
}

TEST(BytePairTokenizer, LearnsTheMostFrequentPairsFirst) {
  const auto tokenizer = BytePairTokenizer::learn(kText, 300);
  EXPECT_LE(tokenizer.size(), 300);
  EXPECT_EQ(tokenizer.decode(Tokens{256}), "es") << "9 times; the lowest of the equally frequent pairs";
  EXPECT_EQ(tokenizer.encode(" newest").size(), 1U);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(kText)), kText);
  EXPECT_EQ(BytePairTokenizer::learn(kText, 256).size(), 256) << "only the bytes";
  EXPECT_TRUE(says(message_of<ConfigError>([] { BytePairTokenizer::learn(kText, 255); }), "--size"));
}

TEST(BytePairTokenizer, WrittenTokenizerReadsBack) {
  const TemporaryFolder folder;
  const auto learned = BytePairTokenizer::learn(kText, 280);
  learned.write(folder.path() / "tokenizer");
  const auto read = BytePairTokenizer::read(folder.path() / "tokenizer", "data.tokenizer");
  EXPECT_EQ(read.size(), learned.size());
  EXPECT_EQ(read.encode(kText), learned.encode(kText));
}

// tests/data/tokenizer_numbers.py trained these vocabularies with Hugging Face's tokenizers and recorded their tokens.
// The texts have runs of spaces, contractions in both cases, digits, letters and marks of many alphabets, emoji and
// lines.
TEST(BytePairTokenizer, MatchesHuggingFacesTokens) {
  const auto folder = std::filesystem::path(built::kSourceFolder) / "tests/data/hugging_face";
  for (const auto& [files, numbers] : {std::pair{"gpt2", "gpt2"},
                                       {"gpt2/files", "gpt2"},
                                       {"llama3", "llama3"},
                                       {"llama2", "llama2"},
                                       {"llama2_across", "llama2_across"}}) {
    const auto tokenizer = BytePairTokenizer::read(folder / files, "data.tokenizer");
    const auto cases = nlohmann::json::parse(std::ifstream(folder / numbers / "encoded.json"));
    EXPECT_GT(cases.size(), 15U);
    for (const auto& each : cases) {
      const auto text = each.at("text").get<std::string>();
      const auto tokens = each.at("tokens").get<Tokens>();
      EXPECT_EQ(tokenizer.encode(text), tokens) << files << ": " << text;
      EXPECT_EQ(tokenizer.decode(tokens), text) << files;
    }
  }
}

BytePairTokenizer like_llama2(const char* name) {
  return BytePairTokenizer::read(std::filesystem::path(built::kSourceFolder) / "tests/data/hugging_face" / name, "key");
}

TEST(Llama2Tokenizer, UnknownCharactersBecomeBytes) {
  const auto tokenizer = like_llama2("llama2");
  EXPECT_EQ(tokenizer.encode("\n"), (Tokens{tokenizer.encode(" ").front(), 3 + 10})) << "a space in front, and <0x0A>";
  EXPECT_EQ(tokenizer.decode(Tokens{3 + 0xE2, 3 + 0x82, 3 + 0xAC}), "€");
  EXPECT_EQ(tokenizer.added("</s>"), 2);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<0x0A>")), "<0x0A>") << "no text is encoded as the token of a byte";
  for (const std::int64_t token : tokenizer.encode("<0x0A>")) EXPECT_NE(token, 3 + 10);
  EXPECT_EQ(tokenizer.encode("</s><unk>"), (Tokens{2, 0}));
}

// `zero generate` prints one token after the other.
TEST(Llama2Tokenizer, InnerTokensKeepTheirSpace) {
  const auto tokenizer = like_llama2("llama2");
  const Tokens tokens = tokenizer.encode("the other over there");
  std::string text;
  for (const std::int64_t token : tokens) text += tokenizer.text_of(token);
  EXPECT_EQ(text, " the other over there");
  EXPECT_EQ(tokenizer.decode(tokens), "the other over there");
}

TEST(Llama2Tokenizer, OtherFormsAreRefusedByName) {
  const auto published = nlohmann::json::parse(
      std::ifstream(std::filesystem::path(built::kSourceFolder) / "tests/data/hugging_face/llama2/tokenizer.json"));
  const auto refused = [&](const char* patch, const char* why) {
    const TemporaryFolder folder;
    nlohmann::json json = published;
    json.merge_patch(nlohmann::json::parse(patch));
    write(folder.path() / "tokenizer.json", json.dump());
    EXPECT_TRUE(says(refusal(folder), why)) << refusal(folder);
  };
  refused(R"({"normalizer": {"type": "NFKC"}})", "its normalizer is no sequence");
  refused(R"({"normalizer": {"normalizers": [{"type": "Prepend", "prepend": "▁"}]}})",
          "its normalizer lacks {\"content\"");
  refused(R"({"normalizer": {"normalizers": [{"type": "NFKC"}]}})", "its normalizer has {\"type\":\"NFKC\"}");
  refused(R"({"pre_tokenizer": {"type": "Metaspace"}})", "it has a pre_tokenizer");
  refused(R"({"decoder": {"type": "ByteLevel"}})", "its decoder is no sequence");
  refused(R"({"decoder": {"decoders": [{"type": "Fuse"}]}})", "its decoder has {\"type\":\"Fuse\"}");
  refused(R"({"model": {"ignore_merges": true}})", "ignore_merges");
  refused(R"({"model": {"dropout": 0.1}})", "its model has a dropout");
  refused(R"({"model": {"end_of_word_suffix": "</w>"}})", "its model has a end_of_word_suffix");
  refused(R"({"model": {"vocab": {"<0x0A>": null}}})", "falls back to bytes and has no token <0x0A>");
  refused(R"({"model": {"merges": [["<0x0A>", "t"]]}})", "merge 1 names the unknown token \"<0x0A>\"");
  refused(R"({"model": {"byte_fallback": false}})",
          "its normalizer changes the text before cutting, and zero.cpp does not support that");
}

// A text is cut before a line's end if the tokenizer allows it there. Its parts have the tokens of the whole.
RC_GTEST_PROP(Llama2Tokenizer, AnAllowedCutChangesNoToken, ()) {
  static const auto tokenizer = like_llama2("llama2_across");
  const auto text = *rc::gen::container<std::string>(
      rc::gen::element<char>('t', 'h', 'e', ' ', 'r', 's', ',', '\n', '\xC3', '\xA9', '\xFF', '0'));
  RC_ASSERT(tokenizer.decode(tokenizer.encode(text)) == text);
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (!tokenizer.may_cut(text, at)) continue;
    Tokens tokens;
    tokenizer.encode(std::string_view(text).substr(0, at), tokens);
    tokenizer.encode(std::string_view(text).substr(at), tokens, /*begins=*/false);
    RC_ASSERT(tokens == tokenizer.encode(text));
  }
}

RC_GTEST_PROP(BytePairTokenizer, DecodesItsEncodingExactly, ()) {
  static const auto tokenizer = BytePairTokenizer::learn(kText, 290);
  const auto bytes = *rc::gen::container<std::string>(
      rc::gen::element<char>('l', 'o', 'w', ' ', 'e', 's', 't', '\n', '\'', '\xC3', '\xA9', '\xFF', '0'));
  RC_ASSERT(tokenizer.decode(tokenizer.encode(bytes)) == bytes);
}

}  // namespace
}  // namespace zero
