#include "app/data/token_text.h"

#include <charconv>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

std::vector<std::int64_t> read_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (next != end && *next != ' '))
      throw ConfigError("--prompt", text, "the tokens of this run are numbers, and this is not a number",
                        "write numbers, or train with data.tokenizer");
    numbers.push_back(number);
    at = next;
  }
  return numbers;
}

}  // namespace

TokenText TokenText::of(DataKind kind, const std::filesystem::path& tokenizer) {
  TokenText text;
  text.is_bytes_ = kind == DataKind::kText;
  if (!tokenizer.empty()) text.tokenizer_ = BytePairTokenizer::read(tokenizer, "data.tokenizer");
  return text;
}

std::string TokenText::show(std::int64_t token) const {
  if (tokenizer_) return tokenizer_->text_of(token);
  return is_bytes_ ? std::string(1, static_cast<char>(token)) : fmt::format("{} ", token);
}

std::vector<std::int64_t> TokenText::read(std::string_view prompt) const {
  if (tokenizer_) return tokenizer_->encode(prompt);
  if (!is_bytes_) return read_numbers(prompt);
  std::vector<std::int64_t> tokens;
  for (const char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

}  // namespace zero
