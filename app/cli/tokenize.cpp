// `zero tokenize`: writes a text as a file of tokens, with a published byte-pair tokenizer or one that it learns.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"

#include "app/cli/command/flags.h"
#include "app/cli/verbs.h"
#include "app/data/tokens/byte_pair_tokenizer.h"
#include "app/data/tokens/text_parts.h"
#include "app/data/tokens/token_file.h"

namespace zero::cli {
namespace {

BytePairTokenizer learn(const std::vector<std::string>& inputs, std::int64_t size, const std::string& folder) {
  std::string text, part;
  for (const std::string& input : inputs) {
    TextParts parts(input, nullptr);
    while (parts.next(part)) text += part;
  }
  BytePairTokenizer tokenizer = BytePairTokenizer::learn(text, size);
  tokenizer.write(folder);
  fmt::print("{}: {} tokens, learned from {}\n", folder, tokenizer.size(), format_bytes(std::ssize(text)));
  return tokenizer;
}

std::int64_t document_end(const BytePairTokenizer& tokenizer, const std::string& name) {
  const auto number = tokenizer.added(name);
  if (!number)
    throw ConfigError("--document-end", name, "the tokenizer has added no token of this name",
                      "name one, such as <|endoftext|>, or leave it out");
  return *number;
}

struct ReadTexts {
  std::int64_t bytes = 0;
  std::int64_t specials = 0;  // tokens whose names were in the texts
};

// `writer` is finished; an error leaves nothing of it.
template <typename Writer>
ReadTexts write_tokens(const std::vector<std::string>& inputs, const BytePairTokenizer& tokenizer,
                       const std::optional<std::int64_t>& end, Writer& writer) {
  ReadTexts read;
  std::string part;
  std::vector<std::int64_t> tokens;
  for (const std::string& input : inputs) {
    TextParts parts(input, &tokenizer);
    bool begins = true;
    while (parts.next(part)) {
      tokens.clear();
      tokenizer.encode(part, tokens, begins);
      begins = false;
      writer.append(tokens);
      read.bytes += std::ssize(part);
      read.specials += tokenizer.count_added(tokens);
    }
    if (end) writer.append(std::span(&*end, 1));
  }
  writer.finish();
  return read;
}

void say_written(const std::string& files, std::int64_t tokens, const ReadTexts& read, std::int64_t vocab) {
  fmt::print("{}: {} tokens from {}, {:.2f} bytes a token; [model] vocab = {}\n", files, tokens,
             format_bytes(read.bytes),
             static_cast<double>(read.bytes) / static_cast<double>(std::max<std::int64_t>(tokens, 1)), vocab);
  if (read.specials > 0)
    fmt::print("  {} added tokens were named in the texts; --specials text reads such names as text\n",
               format_count(read.specials));
}

std::string names_of(const TokenShardWriter& shards) {
  const std::string first = shards.path(0).string();
  return shards.num_shards() == 1 ? first
                                  : fmt::format("{} to {}", first, shards.path(shards.num_shards() - 1).string());
}

}  // namespace

int run_tokenize(Arguments arguments) {
  CLI::App app(
      "Writes texts as tokens, for [data] kind = \"tokens\", with a byte-pair tokenizer that is read or learned.",
      "zero tokenize");
  std::vector<std::string> inputs;
  std::string output, tokenizer_folder, learned_folder, end_name, specials = "tokens";
  std::int64_t size = 1024, shard_tokens = 0;
  app.add_option("INPUT", inputs, "texts")->required();
  app.add_option("-o,--output", output, "file of tokens, in llm.c's format");
  auto* given = app.add_option("--tokenizer", tokenizer_folder,
                               "folder of a tokenizer: tokenizer.json, or vocab.json and merges.txt");
  app.add_option("--learn", learned_folder, "folder for a tokenizer that is learned from the texts")->excludes(given);
  app.add_option("--size", size, "largest number of tokens that --learn makes")->capture_default_str();
  app.add_option("--document-end", end_name, "token after each text, such as <|endoftext|>");
  app.add_option("--specials", specials,
                 "meaning of names such as <|endoftext|> in a text: the added tokens, or plain text")
      ->check(CLI::IsMember({"tokens", "text"}))
      ->capture_default_str();
  app.add_option("--shard-tokens", shard_tokens,
                 "tokens of a file; -o train.bin becomes train_000001.bin and so on; 0: one file")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{INT32_MAX}));
  if (!parse_flags(app, arguments)) return 0;
  if (tokenizer_folder.empty() == learned_folder.empty())
    throw ConfigError("--tokenizer", tokenizer_folder, "no tokenizer is named",
                      "give --tokenizer FOLDER, or --learn FOLDER");
  if (learned_folder.empty() && output.empty())
    throw ConfigError("-o", "", "there is nothing to write", "name the file of tokens");

  if (!learned_folder.empty() && !end_name.empty())
    throw ConfigError("--document-end", end_name, "a tokenizer that is learned has no token of this name",
                      "leave it out, or use a published tokenizer");

  for (const std::string& input : inputs) require_input_file("INPUT", input);
  if (!output.empty()) require_token_output("-o", output);
  if (shard_tokens > 0) TokenShardWriter::require_free(output, "-o");
  const BytePairTokenizer tokenizer =
      learned_folder.empty() ? BytePairTokenizer::read(tokenizer_folder, "--tokenizer",
                                                       specials == "text" ? Specials::kText : Specials::kTokens)
                             : learn(inputs, size, learned_folder);
  if (output.empty()) return 0;
  std::optional<std::int64_t> end;
  if (!end_name.empty()) end = document_end(tokenizer, end_name);
  if (shard_tokens > 0) {
    TokenShardWriter writer(output, tokenizer.size(), shard_tokens);
    const ReadTexts read = write_tokens(inputs, tokenizer, end, writer);
    say_written(names_of(writer), writer.size(), read, tokenizer.size());
  } else {
    TokenFileWriter writer(output, tokenizer.size());
    const ReadTexts read = write_tokens(inputs, tokenizer, end, writer);
    say_written(output, writer.size(), read, tokenizer.size());
  }
  return 0;
}

}  // namespace zero::cli
