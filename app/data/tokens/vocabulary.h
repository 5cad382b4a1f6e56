// Vocabulary: converts a text to the numbers of its words, or of pieces of words.
//
//   Vocabulary words = Vocabulary::learn(texts, 4000);                    // the most frequent words
//   Vocabulary pieces = Vocabulary::read("bert/vocab.txt", "data.vocab");  // WordPiece, as BERT publishes it
//   words.encode("to be or not", 16)      // [CLS] to be or not, then padding: 16 numbers
//
// A learned vocabulary has words between spaces, with ASCII letters in lower case. A vocabulary that is read has
// WordPiece's pieces; "##" marks a piece that continues a word. Numbers equal those of transformers 5 (BertTokenizer,
// with lower_case as do_lower_case). A text is cut into words (bert_words.h). From the begin of a word the longest
// piece is taken, again and again (Schuster and Nakajima, 2012). A word is [UNK] if no piece fits, or if it has more
// than 100 characters. [PAD], [UNK], [CLS], [SEP] and [MASK] in a text are these pieces. [SEP] ends a text.
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
  // Learns a vocabulary of at most `size` numbers; fewer if the texts have fewer words. 0 is [PAD], 1 is [UNK] for
  // every other word, and 2 is [CLS]. Words follow by frequency, and equally frequent words in alphabetical order. So
  // the same texts give the same numbers everywhere. Throws ConfigError under "data.words" if `size` is below 4.
  static Vocabulary learn(std::span<const std::string> texts, std::int64_t size);
  // Returns the learned vocabulary that lines() wrote. Throws ConfigError(key, "path:line") if it is none.
  static Vocabulary of_lines(std::string_view lines, std::string_view key, std::string_view path);
  // Returns the pieces, one a line in the order of their numbers.
  std::string lines() const;
  // Reads a file with one piece per line, whose number is the line's, from 0. If lower_case is empty, texts are
  // lower-cased if fewer than one piece in a hundred has a capital letter. Names in brackets do not count
  // (has_capital()). Vocabularies of lower-case letters with accents are not supported. Throws ConfigError(key) if the
  // file lacks [PAD], [UNK], [CLS] or [SEP], or has a piece twice.
  static Vocabulary read(const std::filesystem::path& path, std::string_view key, std::optional<bool> lower_case = {});
  static Vocabulary parse(std::string_view bytes, std::string_view key, std::string_view path,
                          std::optional<bool> lower_case = {});

  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  std::int64_t pad() const { return pad_; }
  const std::string& piece(std::int64_t number) const { return pieces_[static_cast<std::size_t>(number)]; }
  // Returns lines for the user. They say how capital letters are treated, or why lower_case does not fit the pieces.
  // They also count the pieces with accents that lower-cased texts do not have. For words of of_lines() a line names
  // their file.
  const std::vector<std::string>& notes() const { return notes_; }

  // Returns `context` numbers: [CLS], the text, cut off if it is longer, and padding.
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

  bool has_pieces_ = false;  // is it a WordPiece vocabulary?
  bool lower_case_ = false;
  std::int64_t pad_ = 0, unknown_ = 1, begin_ = 2, end_ = -1;
  std::vector<std::int64_t> specials_;  // numbers of special pieces that are also found in texts
  std::vector<std::string> pieces_;
  Numbers numbers_, continued_;  // words and first pieces; pieces that continue a word, without their "##"
  std::vector<std::string> notes_;
};

}  // namespace zero
