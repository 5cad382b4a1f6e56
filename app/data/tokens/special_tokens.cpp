#include "app/data/tokens/special_tokens.h"

#include <algorithm>
#include <utility>

#include <utf8proc.h>

namespace zero {
namespace {

struct Character {
  std::int32_t code = -1;  // -1: no UTF-8
  std::size_t bytes = 1;
};

Character character_at(std::string_view text, std::size_t at) {
  Character found;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                      static_cast<utf8proc_ssize_t>(text.size() - at), &found.code);
  if (bytes > 0) found.bytes = static_cast<std::size_t>(bytes);
  if (bytes <= 0) found.code = -1;
  return found;
}

// Returns the character that ends at `at`, which must not be 0.
Character letter_before(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t bytes = 1; bytes <= std::min(at, kLongest); ++bytes) {
    const Character found = character_at(text, at - bytes);
    if (found.code >= 0 && found.bytes == bytes) return found;
  }
  return {};
}

// Has the character Unicode's property White_Space?
constexpr bool is_space(std::int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Does \w of Unicode's regular expressions match? It has letters, marks, decimal digits, connectors and joiners.
bool is_of_a_word(std::int32_t c) {
  if (c < 0) return false;
  if (c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189))
    return true;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

// Return the begin of the white space before `at`, and the end of the white space that begins at `at`.
std::size_t space_begin(std::string_view text, std::size_t at) {
  while (at > 0) {
    const Character before = letter_before(text, at);
    if (!is_space(before.code)) break;
    at -= before.bytes;
  }
  return at;
}
std::size_t space_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (!is_space(next.code)) break;
    at += next.bytes;
  }
  return at;
}

bool is_a_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !is_of_a_word(letter_before(text, begin).code)) &&
         (end == text.size() || !is_of_a_word(character_at(text, end).code));
}

}  // namespace

void SpecialTokens::add(SpecialToken token) {
  std::erase_if(tokens_, [&](const SpecialToken& other) { return other.name == token.name; });
  first_bytes_[static_cast<unsigned char>(token.name.front())] = true;
  longest_ = std::max(longest_, token.name.size());
  const auto place =
      std::ranges::find_if(tokens_, [&](const SpecialToken& other) { return other.name.size() < token.name.size(); });
  tokens_.insert(place, std::move(token));
}

const SpecialToken* SpecialTokens::begins_at(std::string_view text, std::size_t at) const {
  if (!first_bytes_[static_cast<unsigned char>(text[at])]) return nullptr;
  const auto found =
      std::ranges::find_if(tokens_, [&](const SpecialToken& token) { return text.substr(at).starts_with(token.name); });
  return found == tokens_.end() ? nullptr : &*found;
}

void SpecialTokens::split(std::string_view text, const std::function<void(std::string_view)>& take_text,
                          const std::function<void(std::int64_t)>& take_token) const {
  std::size_t done = 0;
  for (std::size_t at = 0; !tokens_.empty() && at < text.size();) {
    const SpecialToken* const token = begins_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->name.size();
    at = end;  // the search continues here, also if white space after it is removed
    if (token->single_word && !is_a_word(text, begin, end)) continue;
    if (token->lstrip) begin = std::max(space_begin(text, begin), done);
    if (token->rstrip) end = space_end(text, end);
    if (begin > done) take_text(text.substr(done, begin - done));
    take_token(token->number);
    done = end;
  }
  if (done < text.size()) take_text(text.substr(done));
}

bool SpecialTokens::reaches(std::string_view text, std::size_t at) const {
  for (std::size_t begin = at - std::min(at, longest_); begin <= at; ++begin) {
    if (!first_bytes_[static_cast<unsigned char>(text[begin])]) continue;
    const std::string_view rest = text.substr(begin);
    for (const SpecialToken& token : tokens_) {
      const std::size_t seen = std::min(rest.size(), token.name.size());
      if (begin + token.name.size() > at && rest.substr(0, seen) == std::string_view(token.name).substr(0, seen))
        return true;
    }
  }
  return false;
}

bool SpecialTokens::ends_at(std::string_view text, std::size_t at) const {
  return std::ranges::any_of(tokens_,
                             [&](const SpecialToken& token) { return text.substr(0, at).ends_with(token.name); });
}

bool SpecialTokens::may_cut(std::string_view text, std::size_t at) const {
  if (reaches(text, at)) return false;
  const std::size_t left = space_begin(text, at), right = space_end(text, at);
  return std::ranges::none_of(tokens_, [&](const SpecialToken& token) {
    const std::string_view rest = text.substr(right);
    const bool begins = rest.size() < token.name.size() ? token.name.starts_with(rest) : rest.starts_with(token.name);
    return (token.lstrip && begins) || (token.rstrip && text.substr(0, left).ends_with(token.name));
  });
}

}  // namespace zero
