// Vocabulary: from a text to numbers that stand for its words, or pieces of them.
//
//   Vocabulary words = Vocabulary::learn(texts, 4000);                    // the most frequent words
//   Vocabulary pieces = Vocabulary::read("bert/vocab.txt", "data.vocab");  // WordPiece, as BERT publishes it
//   words.encode("to be or not", 16)      // [CLS] to be or not, then padding: 16 numbers
//
// Learned: words are what stands between spaces, ASCII letters in lower case; number 0 is [PAD], 1 [UNK] for every other
// word, 2 [CLS], then words by frequency, those as frequent as each other in alphabetical order. The same texts give the
// same numbers everywhere.
//
// Read: one piece a line, its number the line's; "##" marks a piece that goes on a word. A text is cut at spaces and around
// each punctuation mark, ASCII letters become lower case, and each word takes the longest piece that it begins with, again
// and again (Schuster and Nakajima, 2012); a word for which that fails is [UNK]. [SEP] ends a text. Other than Hugging
// Face's tokenizer it strips no accents and cuts no Chinese characters apart.
//
// Immutable: any number of threads may encode. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

class Vocabulary {
 public:
  // At most `size` numbers, the three special ones included; fewer where the texts have fewer words. Throws ConfigError
  // under "data.words" for fewer than 4.
  static Vocabulary learn(std::span<const std::string> texts, std::int64_t size);
  // Throws ConfigError(key) for a file without [PAD], [UNK], [CLS] and [SEP], or with a piece twice.
  static Vocabulary read(const std::filesystem::path& path, std::string_view key);
  static Vocabulary parse(std::string_view bytes, std::string_view key, std::string_view path);

  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  std::int64_t pad() const { return pad_; }
  const std::string& piece(std::int64_t number) const { return pieces_[static_cast<std::size_t>(number)]; }

  // `context` numbers: [CLS] and the text, cut off where it is longer, then padding.
  std::vector<std::int64_t> encode(std::string_view text, std::int64_t context) const;

 private:
  void add_word(std::string_view word, std::vector<std::int64_t>& numbers) const;

  bool cuts_words_ = false;  // WordPiece
  std::int64_t pad_ = 0, unknown_ = 1, begin_ = 2, end_ = -1;
  std::vector<std::string> pieces_;
  std::map<std::string, std::int64_t, std::less<>> numbers_;
};

}  // namespace zero
