// TokenStream: a file of tokens that stays open. Only the tokens that a caller asks for are read.
//
//   kind    file                              recognised by
//   text    any bytes; each is a token        the user's choice
//   tokens  llm.c .bin, uint16 tokens         1,024-byte header of int32: [0] 20240520, [1] version 1, [2] token count
//           llm.c .bin, uint32 (Llama 3)      the same with 20240801, version 7
//           nanoGPT .bin, uint16 tokens       any other file of even size that does not look like text
//
// Local; reading from several threads is safe. Throws ConfigError(key, path) if the count of an llm.c header does not
// match the file's size. Also if a file begins with the mark of another format: llm.c models and states, Megatron
// indices, gzip, zip. Throws IoError if the file cannot be read, or has become shorter since it was opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "zero/base/files/input_file.h"

namespace zero {

enum class TokenKind { kText, kTokens };

struct TokenLayout {
  std::string_view format;  // "text", "llm.c uint16", "llm.c uint32", "nanoGPT uint16"
  std::size_t token_bytes = 1;
  std::int64_t data_begin = 0;  // byte at which the tokens begin
  std::int64_t num_tokens = 0;
};

// The number of first bytes of a file that decide its layout.
inline constexpr std::int64_t kTokenHeadBytes = 1024;

// Finds the layout of a file of `size_bytes`. `head` has its first kTokenHeadBytes, or the whole file if it is smaller.
// `key` and `path` are for errors.
TokenLayout parse_token_layout(std::span<const std::byte> head, std::int64_t size_bytes, TokenKind kind,
                               std::string_view key, std::string_view path);

// Converts tokens of `token_bytes` bytes to int64: out[i] = token i of `raw`. raw.size() is out.size() * token_bytes.
void widen_tokens(std::span<const std::byte> raw, std::size_t token_bytes, std::span<std::int64_t> out);

class TokenStream {
 public:
  TokenStream(const std::filesystem::path& path, TokenKind kind, std::string_view key = "data.path");

  std::int64_t size() const { return layout_.num_tokens; }
  const TokenLayout& layout() const { return layout_; }
  const std::string& path() const { return file_.path(); }

  // Reads tokens [begin, begin + out.size()).
  void read(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  InputFile file_;
  TokenLayout layout_;
};

}  // namespace zero
