#include "zero/data/vocabulary.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/base/input_file.h"

namespace zero {
namespace {

constexpr std::size_t kLongestWord = 100;  // bytes; a longer one is [UNK], as in BERT's own tokenizer

bool is_space(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r';
}

// ASCII marks that stand alone.
bool is_mark(char letter) {
  const auto code = static_cast<unsigned char>(letter);
  return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
         (code >= 123 && code <= 126);
}

// Calls visit(word) for each word of a text, in lower case.
template <typename Visit>
void visit_words(std::string_view text, bool cuts_at_marks, Visit visit) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) visit(std::string_view(word));
    word.clear();
  };
  for (const char letter : text) {
    if (is_space(letter)) {
      end_word();
    } else if (cuts_at_marks && is_mark(letter)) {
      end_word();
      word = letter;
      end_word();
    } else {
      word += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
  }
  end_word();
}

}  // namespace

Vocabulary Vocabulary::learn(std::span<const std::string> texts, std::int64_t size) {
  if (size < 4)
    throw ConfigError("data.words", fmt::format("{}", size), "leaves no room for a word",
                      "use 4 or more: three numbers are [PAD], [UNK] and [CLS]");
  std::unordered_map<std::string, std::int64_t> counts;
  for (const std::string& text : texts)
    visit_words(text, /*cuts_at_marks=*/false, [&](std::string_view word) { ++counts[std::string(word)]; });
  std::vector<std::pair<std::string, std::int64_t>> words(counts.begin(), counts.end());
  std::ranges::sort(words, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  Vocabulary vocabulary;
  vocabulary.pieces_ = {"[PAD]", "[UNK]", "[CLS]"};
  for (const auto& [word, count] : words) {
    if (vocabulary.size() == size) break;
    vocabulary.numbers_.emplace(word, vocabulary.size());
    vocabulary.pieces_.push_back(word);
  }
  return vocabulary;
}

Vocabulary Vocabulary::read(const std::filesystem::path& path, std::string_view key) {
  require_input_file(key, path);
  return parse(InputFile(path).read_all(), key, path.native());
}

Vocabulary Vocabulary::parse(std::string_view bytes, std::string_view key, std::string_view path) {
  Vocabulary vocabulary;
  vocabulary.cuts_words_ = true;
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    std::string_view piece = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    const auto [twin, is_new] = vocabulary.numbers_.emplace(piece, vocabulary.size());
    if (!is_new)
      throw ConfigError(key, fmt::format("{}:{}", path, vocabulary.size() + 1),
                        fmt::format("'{}' stands in line {}, too", piece.substr(0, 40), twin->second + 1),
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
  return vocabulary;
}

void Vocabulary::add_word(std::string_view word, std::vector<std::int64_t>& numbers) const {
  if (!cuts_words_) {
    const auto found = numbers_.find(word);
    numbers.push_back(found == numbers_.end() ? unknown_ : found->second);
    return;
  }
  const std::size_t before = numbers.size();
  std::string piece;
  for (std::size_t begin = 0; begin < word.size();) {
    std::size_t end = word.size() > kLongestWord ? begin : word.size();
    auto found = numbers_.end();
    for (; end > begin; --end) {
      piece = begin == 0 ? "" : "##";
      piece += word.substr(begin, end - begin);
      if ((found = numbers_.find(piece)) != numbers_.end()) break;
    }
    if (found == numbers_.end()) {
      numbers.resize(before);
      numbers.push_back(unknown_);
      return;
    }
    numbers.push_back(found->second);
    begin = end;
  }
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text, std::int64_t context) const {
  const auto room = static_cast<std::size_t>(context) - (end_ >= 0 && context > 1 ? 1 : 0);
  std::vector<std::int64_t> numbers{begin_};
  visit_words(text, cuts_words_, [&](std::string_view word) {
    if (numbers.size() < room) add_word(word, numbers);
  });
  numbers.resize(std::min(numbers.size(), room));
  if (end_ >= 0 && context > 1) numbers.push_back(end_);
  numbers.resize(static_cast<std::size_t>(context), pad_);
  return numbers;
}

}  // namespace zero
