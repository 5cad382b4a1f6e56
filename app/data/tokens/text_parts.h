// TextParts: reads a text part by part, for a text that is larger than the memory.
//
//   TextParts parts("input.txt", &tokenizer);
//   for (std::string part; parts.next(part);) tokenizer.encode(part, tokens, begins);
//
// All parts together are the text. A part ends before the last line end at which the tokenizer may cut. If there is
// none, it ends at the last other place, such as a space after a word. If it has no such place, it ends when it is
// full. Then a token at the cut may differ from that of the whole text. Local. Throws IoError.
#pragma once

#include <cstdint>
#include <string>

#include "zero/base/files/input_file.h"

#include "app/data/tokens/byte_pair_tokenizer.h"

namespace zero {

class TextParts {
 public:
  static constexpr std::int64_t kMostBytes = 1 << 24;  // of a part

  // Without a tokenizer a part ends before any line end. `most_bytes`: 1 or more.
  TextParts(const std::string& path, const BytePairTokenizer* tokenizer, std::int64_t most_bytes = kMostBytes);

  // Reads the next part; false: the text has ended.
  bool next(std::string& part);

 private:
  // Returns the place at which `part`, which is not the last one, is cut.
  std::size_t cut_of(const std::string& part) const;

  InputFile file_;
  const BytePairTokenizer* tokenizer_;
  std::int64_t most_bytes_;
  std::int64_t at_ = 0;
};

}  // namespace zero
