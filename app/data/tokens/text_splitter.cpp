#include "app/data/tokens/text_splitter.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 200> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

const pcre2_code* code_of(const std::shared_ptr<const void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

// Returns the character at `at`, or -1 if that is not UTF-8. `bytes`: its length.
std::int32_t code_at(std::string_view text, std::size_t at, std::size_t& bytes) {
  utf8proc_int32_t code = -1;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  bytes = length > 0 ? static_cast<std::size_t>(length) : 1;
  return length > 0 ? code : -1;
}

bool is_letter_or_digit(std::int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

// Returns the begin of the letter or digit that ends at `at`; `at` if there is none.
std::size_t begin_of_letter(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t back = 1; back <= std::min(at, kLongest); ++back) {
    std::size_t bytes = 0;
    const std::int32_t code = code_at(text, at - back, bytes);
    if (code >= 0 && bytes == back) return is_letter_or_digit(code) ? at - back : at;
  }
  return at;
}

}  // namespace

TextSplitter::TextSplitter(std::string_view expression, std::string_view key, std::string_view path) {
  int error = 0;
  PCRE2_SIZE where = 0;
  // Text that is not UTF-8 matches nothing, and is not an error.
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), kOptions, &error,
                                   &where, nullptr);
  if (code == nullptr) {
    throw ConfigError(key, path,
                      fmt::format("its regular expression is refused at character {}: {}", where, message_of(error)),
                      "use a tokenizer whose expression PCRE2 supports, such as GPT-2's or Llama 3's");
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT on this machine, matching is slower
  code_ = std::shared_ptr<const void>(
      code, [](const void* held) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(held))); });
}

void TextSplitter::split(std::string_view text, const std::function<void(std::string_view)>& take) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code_of(code_), nullptr), pcre2_match_data_free);
  std::size_t begin = 0;
  while (begin < text.size()) {
    const int found = pcre2_match(code_of(code_), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                                  PCRE2_NOTEMPTY, match.get(), nullptr);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
      throw Error(fmt::format("the tokenizer's expression ends at byte {} of a text: {}", begin, message_of(found)));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    const std::size_t first = found < 0 ? text.size() : ends[0];
    const std::size_t last = found < 0 ? text.size() : ends[1];
    if (first > begin) take(text.substr(begin, first - begin));
    if (last > first) take(text.substr(first, last - first));
    begin = last;
  }
}

bool TextSplitter::may_cut(std::string_view text, std::size_t at) const {
  constexpr std::size_t kLookAhead = 32;  // bytes after the cut that the expression is tried with
  std::size_t bytes = 0;
  const std::int32_t next = at < text.size() ? code_at(text, at, bytes) : -1;
  const bool is_space = next == ' ' || next == '\n' || next == '\r';
  if (next < 0 || next == '\'') return false;
  if (!is_space && utf8proc_category(next) != UTF8PROC_CATEGORY_PO) return false;
  const std::size_t begin = begin_of_letter(text, at);
  if (begin == at) return false;
  bool ends_there = false;
  std::size_t end = begin;
  split(text.substr(begin, at - begin + kLookAhead), [&](std::string_view piece) {
    end += piece.size();
    ends_there = ends_there || end == at;
  });
  return ends_there;
}

}  // namespace zero
