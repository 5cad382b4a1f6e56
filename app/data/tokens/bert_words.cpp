#include "app/data/tokens/bert_words.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <utf8proc.h>

namespace zero {
namespace {

enum class CharacterKind : std::uint8_t { kDropped, kSpace, kMark, kIdeograph, kLetter };

constexpr std::int32_t kAscii = 0x80;
constexpr std::int32_t kReplacement = 0xFFFD;   // Unicode's replacement character
constexpr std::int32_t kAfterArmenian = 0x590;  // scripts below have had capitals since they were added to Unicode

constexpr CharacterKind ascii_kind(std::int32_t character) {
  if (character == ' ' || character == '\t' || character == '\n' || character == '\r') return CharacterKind::kSpace;
  if (character < 0x20 || character == 0x7F) return CharacterKind::kDropped;
  const bool is_letter_or_digit = (character >= '0' && character <= '9') || (character >= 'A' && character <= 'Z') ||
                                  (character >= 'a' && character <= 'z');
  return is_letter_or_digit ? CharacterKind::kLetter : CharacterKind::kMark;
}

constexpr std::array<CharacterKind, kAscii> kAsciiKinds = [] {
  std::array<CharacterKind, kAscii> kinds{};
  for (std::int32_t i = 0; i < kAscii; ++i) kinds[static_cast<std::size_t>(i)] = ascii_kind(i);
  return kinds;
}();

// Is the character in BERT's list of blocks? Kana and Hangul are not in the list.
constexpr bool is_ideograph(std::int32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

CharacterKind character_kind(std::int32_t character) {
  if (character < kAscii) return kAsciiKinds[static_cast<std::size_t>(character)];
  if (is_ideograph(character)) return CharacterKind::kIdeograph;
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return CharacterKind::kDropped;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterKind::kSpace;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharacterKind::kMark;
    default:
      return character == kReplacement ? CharacterKind::kDropped : CharacterKind::kLetter;
  }
}

// Removes the next character from a text and returns it; -1 for a byte that is not UTF-8.
std::int32_t next_character(std::string_view& text) {
  std::int32_t character = static_cast<unsigned char>(text.front());
  if (character < kAscii) {
    text.remove_prefix(1);
    return character;
  }
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &character);
  text.remove_prefix(bytes > 0 ? static_cast<std::size_t>(bytes) : 1);
  return bytes > 0 ? character : -1;
}

// Calls visit(part) for the parts of a decomposed character that are not nonspacing marks. Returns whether these are
// all parts.
template <typename Visit>
bool visit_unmarked(std::int32_t character, Visit visit) {
  std::array<std::int32_t, 8> parts{};  // Unicode has at most four parts so far
  constexpr auto kNfd = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  const auto count = utf8proc_decompose_char(character, parts.data(), parts.size(), kNfd, nullptr);
  bool all = true;
  for (utf8proc_ssize_t i = 0; i < std::min<utf8proc_ssize_t>(count, parts.size()); ++i) {
    const std::int32_t part = parts[static_cast<std::size_t>(i)];
    const bool is_left_out = utf8proc_category(part) == UTF8PROC_CATEGORY_MN;
    all = all && !is_left_out;
    if (!is_left_out) visit(part);
  }
  return all;
}

template <typename Holds>
bool has_character(std::string_view text, Holds holds) {
  while (!text.empty()) {
    const std::int32_t character = next_character(text);
    if (character >= 0 && holds(character)) return true;
  }
  return false;
}

// The word that is being read, character by character.
class GrowingWord {
 public:
  explicit GrowingWord(const TakeBertWord& take) : take_(take) {}

  bool wants_more() const { return wants_more_; }

  void add(std::int32_t character) {
    if (character < kAscii) {
      bytes_ += static_cast<char>(character);
    } else {
      std::array<utf8proc_uint8_t, 4> encoded{};
      const auto size = utf8proc_encode_char(character, encoded.data());
      bytes_.append(reinterpret_cast<const char*>(encoded.data()), static_cast<std::size_t>(size));
    }
    ++characters_;
  }

  void end() {
    if (bytes_.empty()) return;
    wants_more_ = wants_more_ && take_(bytes_, characters_);
    bytes_.clear();
    characters_ = 0;
  }

  // Adds a character. A mark is a word by itself.
  void add(std::int32_t character, CharacterKind kind) {
    if (kind == CharacterKind::kMark) end();
    add(character);
    if (kind == CharacterKind::kMark) end();
  }

  void add_lower_case(std::int32_t character, CharacterKind kind) {
    if (character < kAscii) {
      add(character >= 'A' && character <= 'Z' ? character - 'A' + 'a' : character, kind);
      return;
    }
    visit_unmarked(character, [&](std::int32_t part) { add(utf8proc_tolower(part), character_kind(part)); });
  }

 private:
  const TakeBertWord& take_;
  std::string bytes_;
  std::size_t characters_ = 0;
  bool wants_more_ = true;
};

}  // namespace

void for_each_bert_word(std::string_view text, bool lower_case, const TakeBertWord& take) {
  GrowingWord word(take);
  while (!text.empty() && word.wants_more()) {
    const std::int32_t character = next_character(text);
    const CharacterKind kind = character < 0 ? CharacterKind::kDropped : character_kind(character);
    if (kind == CharacterKind::kDropped) continue;
    if (kind == CharacterKind::kSpace || kind == CharacterKind::kIdeograph) word.end();
    if (kind == CharacterKind::kSpace) continue;
    lower_case ? word.add_lower_case(character, kind) : word.add(character, kind);
    if (kind == CharacterKind::kIdeograph) word.end();
  }
  word.end();
}

bool has_capital(std::string_view text) {
  return has_character(text, [](std::int32_t character) {
    return character < kAfterArmenian && utf8proc_tolower(character) != character;
  });
}

bool has_accent(std::string_view text) {
  return has_character(text, [](std::int32_t character) {
    return character >= kAscii && !visit_unmarked(character, [](std::int32_t) {});
  });
}

}  // namespace zero
