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
// Read: one piece a line, its number the line's; "##" marks a piece that goes on a word. Numbers are those of transformers 5
// (BertTokenizer, with do_lower_case as lower_case). A text is cut into words (bert_words.h), and each word takes the
// longest piece that it begins with, again and again (Schuster and Nakajima, 2012); a word for which that fails, or of more
// than 100 characters, is [UNK]. [PAD], [UNK], [CLS], [SEP] and [MASK] in a text are those pieces. [SEP] ends a text.
// Where lower_case is not said, it follows from the pieces: texts are lower-cased if fewer than one piece in a hundred has a
// capital letter (has_capital(); names in brackets do not count). Not served: vocabularies of small letters with accents.
//
// Immutable: any number of threads may encode. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace zero {

class Vocabulary {
 public:
  // At most `size` numbers, the three special ones included; fewer where the texts have fewer words. Throws ConfigError
  // under "data.words" for fewer than 4.
  static Vocabulary learn(std::span<const std::string> texts, std::int64_t size);
  // Throws ConfigError(key) for a file without [PAD], [UNK], [CLS] and [SEP], or with a piece twice.
  static Vocabulary read(const std::filesystem::path& path, std::string_view key, std::optional<bool> lower_case = {});
  static Vocabulary parse(std::string_view bytes, std::string_view key, std::string_view path,
                          std::optional<bool> lower_case = {});

  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  std::int64_t pad() const { return pad_; }
  const std::string& piece(std::int64_t number) const { return pieces_[static_cast<std::size_t>(number)]; }
  // Lines for the user: what was chosen about capital letters, or why lower_case does not fit the pieces; and how many of
  // them have accents that no text has then.
  const std::vector<std::string>& notes() const { return notes_; }

  // `context` numbers: [CLS] and the text, cut off where it is longer, then padding.
  std::vector<std::int64_t> encode(std::string_view text, std::int64_t context) const;

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Numbers = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;
  struct Special {
    std::size_t at = 0;
    std::int64_t number = 0;
  };

  void settle_case(std::optional<bool> lower_case, std::string_view path);
  void add_pieces(std::string_view word, std::size_t characters, std::vector<std::int64_t>& numbers) const;
  void add_text(std::string_view text, std::size_t room, std::vector<std::int64_t>& numbers) const;
  std::optional<Special> first_special(std::string_view text) const;

  bool has_pieces_ = false;  // WordPiece
  bool lower_case_ = false;
  std::int64_t pad_ = 0, unknown_ = 1, begin_ = 2, end_ = -1;
  std::vector<std::int64_t> specials_;  // that stand in texts, too
  std::vector<std::string> pieces_;
  Numbers numbers_, continued_;  // of words and first pieces; of pieces that go on a word, without their "##"
  std::vector<std::string> notes_;
};

}  // namespace zero
