#include "app/data/tokens/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/input_file.h"
#include "zero/base/text/bytes.h"

#include "app/data/tokens/bert_words.h"

namespace zero {
namespace {

constexpr std::size_t kLongestWord = 100;  // characters; a longer word is [UNK], as in BERT
constexpr std::int64_t kCasedShare = 100;  // cased if 1 piece in 100 has a capital letter
constexpr std::string_view kContinues = "##";
constexpr std::array<std::string_view, 5> kSpecials{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::size_t kLearnedSpecials = 3;  // of kSpecials, the first numbers of a learned vocabulary

// Calls visit(word) for each word of a text between spaces, in ASCII's lower case.
template <typename Visit>
void visit_words(std::string_view text, Visit visit) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) visit(std::string_view(word));
    word.clear();
  };
  for (const char letter : text) {
    if (letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r') {
      end_word();
    } else {
      word += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
  }
  end_word();
}

bool begins_a_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

bool is_in_brackets(std::string_view piece) {
  return piece.starts_with('[') && piece.ends_with(']');
}

}  // namespace

Vocabulary Vocabulary::learn(std::span<const std::string> texts, std::int64_t size) {
  if (size < 4)
    throw ConfigError("data.words", fmt::format("{}", size), "leaves no room for a word",
                      "use 4 or more: three numbers are [PAD], [UNK] and [CLS]");
  std::unordered_map<std::string, std::int64_t> counts;
  for (const std::string& text : texts) visit_words(text, [&](std::string_view word) { ++counts[std::string(word)]; });
  std::vector<std::pair<std::string, std::int64_t>> words(counts.begin(), counts.end());
  std::ranges::sort(words, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  Vocabulary vocabulary;
  vocabulary.pieces_.assign(kSpecials.begin(), kSpecials.begin() + kLearnedSpecials);
  for (const auto& [word, count] : words) {
    if (vocabulary.size() == size) break;
    vocabulary.numbers_.emplace(word, vocabulary.size());
    vocabulary.pieces_.push_back(word);
  }
  return vocabulary;
}

Vocabulary Vocabulary::of_lines(std::string_view lines, std::string_view key, std::string_view path) {
  Vocabulary vocabulary;
  const auto refuse = [&](std::string_view reason) {
    throw ConfigError(key, fmt::format("{}:{}", path, vocabulary.size() + 1), reason,
                      "restore the file that the run wrote when it began, or begin another run");
  };
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    const std::string_view word = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    const auto number = vocabulary.pieces_.size();
    if (number < kLearnedSpecials) {
      if (word != kSpecials[number]) refuse(fmt::format("must be {}", kSpecials[number]));
    } else {
      std::int64_t words = 0;
      bool is_same = false;
      visit_words(word, [&](std::string_view read) { ++words, is_same = read == word; });
      if (words != 1 || !is_same) refuse("is not one word in lower case");
      if (!vocabulary.numbers_.emplace(word, vocabulary.size()).second) refuse("is a word of an earlier line");
    }
    vocabulary.pieces_.emplace_back(word);
  }
  if (vocabulary.pieces_.size() <= kLearnedSpecials) refuse("is missing: the file has no word");
  vocabulary.notes_.push_back(fmt::format("words: as in {}, not learned from this data: {} with [PAD], [UNK] and [CLS]",
                                          path, format_count(vocabulary.size())));
  return vocabulary;
}

std::string Vocabulary::lines() const {
  std::string lines;
  for (const std::string& piece : pieces_) lines += piece + "\n";
  return lines;
}

Vocabulary Vocabulary::read(const std::filesystem::path& path, std::string_view key, std::optional<bool> lower_case) {
  require_input_file(key, path);
  return parse(InputFile(path).read_all(), key, path.native(), lower_case);
}

Vocabulary Vocabulary::parse(std::string_view bytes, std::string_view key, std::string_view path,
                             std::optional<bool> lower_case) {
  Vocabulary vocabulary;
  vocabulary.has_pieces_ = true;
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    std::string_view piece = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    const bool continues = piece.starts_with(kContinues);
    Numbers& numbers = continues ? vocabulary.continued_ : vocabulary.numbers_;
    const auto [twin, is_new] = numbers.emplace(piece.substr(continues ? kContinues.size() : 0), vocabulary.size());
    if (!is_new)
      throw ConfigError(key, fmt::format("{}:{}", path, vocabulary.size() + 1),
                        fmt::format("'{}' is also in line {}", piece.substr(0, 40), twin->second + 1),
                        "Each piece has one number.");
    vocabulary.pieces_.emplace_back(piece);
  }
  const auto number_of = [&](std::string_view piece) {
    const auto found = vocabulary.numbers_.find(piece);
    if (found == vocabulary.numbers_.end())
      throw ConfigError(key, path, fmt::format("has no line {}", piece),
                        "Give a WordPiece vocabulary as BERT publishes it (vocab.txt).");
    return found->second;
  };
  vocabulary.pad_ = number_of("[PAD]");
  vocabulary.unknown_ = number_of("[UNK]");
  vocabulary.begin_ = number_of("[CLS]");
  vocabulary.end_ = number_of("[SEP]");
  for (const std::string_view special : kSpecials) {
    const auto found = vocabulary.numbers_.find(special);
    if (found != vocabulary.numbers_.end()) vocabulary.specials_.push_back(found->second);
  }
  vocabulary.settle_case(lower_case, path);
  return vocabulary;
}

void Vocabulary::settle_case(std::optional<bool> lower_case, std::string_view path) {
  const auto count = [&](bool (*holds)(std::string_view), std::string_view what) {
    const auto number = std::ranges::count_if(
        pieces_, [&](const std::string& piece) { return !is_in_brackets(piece) && holds(piece); });
    std::string text = number == 0 ? fmt::format("no piece in {} has {}", path, what)
                                   : fmt::format("{} of the {} in {} have {}", format_count(number),
                                                 format_count(size(), "piece"), path, what);
    return std::pair(number, std::move(text));
  };
  const auto [capitals, with_capitals] = count(has_capital, "a capital letter");
  const auto [accents, with_accents] = count(has_accent, "an accent");
  const bool is_cased = capitals * kCasedShare >= size();
  lower_case_ = lower_case.value_or(!is_cased);
  const std::string_view done =
      lower_case_ ? "are lower-cased and lose their accents" : "keep capital letters and accents";
  if (!lower_case)
    notes_.push_back(fmt::format("texts {}: {} (data.lower_case)", done, with_capitals));
  else if (lower_case_ && is_cased)
    notes_.push_back(fmt::format("note: data.lower_case is true, and {}: no text has these pieces", with_capitals));
  else if (!lower_case_ && !is_cased)
    notes_.push_back(
        fmt::format("note: data.lower_case is false, and {}: most words with one are [UNK]", with_capitals));
  if (lower_case_ && !is_cased && accents > 0)
    notes_.push_back(fmt::format("note: {}, and texts lose theirs: no text has these pieces", with_accents));
}

void Vocabulary::add_pieces(std::string_view word, std::size_t characters, std::vector<std::int64_t>& numbers) const {
  const std::size_t before = numbers.size();
  for (std::size_t begin = 0; begin < word.size();) {
    const Numbers& pieces = begin == 0 ? numbers_ : continued_;
    std::size_t end = characters > kLongestWord ? begin : word.size();
    auto found = pieces.end();
    for (; end > begin; --end) {
      if (end < word.size() && !begins_a_character(word[end])) continue;
      if ((found = pieces.find(word.substr(begin, end - begin))) != pieces.end()) break;
    }
    if (found == pieces.end()) {
      numbers.resize(before);
      numbers.push_back(unknown_);
      return;
    }
    numbers.push_back(found->second);
    begin = end;
  }
}

// Returns the first special piece in a text.
std::optional<Vocabulary::Special> Vocabulary::first_special(std::string_view text) const {
  for (auto at = text.find('['); at != text.npos; at = text.find('[', at + 1)) {
    for (const std::int64_t number : specials_)
      if (text.substr(at).starts_with(piece(number))) return Special{at, number};
  }
  return std::nullopt;
}

void Vocabulary::add_text(std::string_view text, std::size_t room, std::vector<std::int64_t>& numbers) const {
  while (!text.empty() && numbers.size() < room) {
    const auto special = first_special(text);
    const std::size_t end = special ? special->at : text.size();
    for_each_bert_word(text.substr(0, end), lower_case_, [&](std::string_view word, std::size_t characters) {
      add_pieces(word, characters, numbers);
      return numbers.size() < room;
    });
    if (!special) return;
    numbers.push_back(special->number);
    text.remove_prefix(end + piece(special->number).size());
  }
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text, std::int64_t context) const {
  const auto room = static_cast<std::size_t>(context) - (end_ >= 0 && context > 1 ? 1 : 0);
  std::vector<std::int64_t> numbers{begin_};
  if (has_pieces_) {
    add_text(text, room, numbers);
  } else {
    visit_words(text, [&](std::string_view word) {
      if (numbers.size() >= room) return;
      const auto found = numbers_.find(word);
      numbers.push_back(found == numbers_.end() ? unknown_ : found->second);
    });
  }
  numbers.resize(std::min(numbers.size(), room));
  if (end_ >= 0 && context > 1) numbers.push_back(end_);
  numbers.resize(static_cast<std::size_t>(context), pad_);
  return numbers;
}

}  // namespace zero
