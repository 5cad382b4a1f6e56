#include "app/data/tokens/character_pieces.h"

#include <algorithm>

namespace zero {
namespace {

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Returns the bytes of a character, at most four, as a number.
std::uint64_t number_of(std::string_view character) {
  std::uint64_t number = 0;
  for (const char c : character) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::uint64_t pair_of(std::string_view last, std::string_view first) {
  return number_of(last) << 32 | number_of(first);
}

// Returns the character that ends before byte `at`.
std::string_view character_before(std::string_view text, std::size_t at) {
  for (std::size_t bytes = std::min<std::size_t>(at, 4); bytes > 1; --bytes) {
    if (CharacterPieces::character_bytes(text, at - bytes) == bytes) return text.substr(at - bytes, bytes);
  }
  return text.substr(at - 1, 1);
}

}  // namespace

std::size_t CharacterPieces::character_bytes(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t bytes = lead >= 0xF0 && lead <= 0xF4 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
  if (lead > 0xF4 || bytes == 1 || at + bytes > text.size()) return 1;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues_character(text[at + i])) return 1;
  }
  return bytes;
}

void CharacterPieces::add_merge(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return;
  joined_.insert(pair_of(character_before(left, left.size()), right.substr(0, character_bytes(right, 0))));
}

std::string CharacterPieces::normal(std::string_view text, bool begins) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  if (begins && !text.empty()) out += kSpace;
  for (const char c : text) {
    if (c == ' ')
      out += kSpace;
    else
      out += c;
  }
  return out;
}

std::string CharacterPieces::text_of(std::string_view token) {
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const bool is_space = token.substr(at).starts_with(kSpace);
    out += is_space ? ' ' : token[at];
    at += is_space ? kSpace.size() : 1;
  }
  return out;
}

bool CharacterPieces::may_cut(std::string_view normal, std::size_t at) const {
  if (at == 0 || at >= normal.size()) return true;
  for (std::size_t back = 1; back <= std::min<std::size_t>(at, 3); ++back) {
    if (character_bytes(normal, at - back) > back) return false;  // `at` is within a character
  }
  const std::string_view first = normal.substr(at, character_bytes(normal, at));
  return !joined_.contains(pair_of(character_before(normal, at), first));
}

void CharacterPieces::split(std::string_view normal, const std::function<void(std::string_view)>& take) const {
  std::size_t begin = 0;
  std::string_view last;
  for (std::size_t at = 0; at < normal.size(); at += last.size()) {
    const std::string_view character = normal.substr(at, character_bytes(normal, at));
    if (at > begin && !joined_.contains(pair_of(last, character))) {
      take(normal.substr(begin, at - begin));
      begin = at;
    }
    last = character;
  }
  if (begin < normal.size()) take(normal.substr(begin));
}

}  // namespace zero
