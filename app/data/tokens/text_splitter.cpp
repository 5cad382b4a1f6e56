#include "app/data/tokens/text_splitter.h"

#include <array>

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

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

}  // namespace zero
