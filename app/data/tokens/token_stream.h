// TokenStream: a file of tokens that stays open. Only the tokens that a caller asks for are read.
//
//   kind    file                              recognised by
//   text    any bytes; each is a token        what the user says
//   tokens  llm.c .bin, uint16 tokens         1,024-byte header of int32: [0] 20240520, [1] version 1, [2] token count
//           llm.c .bin, uint32 (Llama 3)      the same with 20240801, version 7
//           nanoGPT .bin, uint16 tokens       anything else with an even size, but for text
//
// The count of an llm.c header must agree with the file's size. Other formats that begin with a known mark (llm.c
// models and states, Megatron indices, gzip, zip) are refused by name. ConfigError(key, path) for all that; IoError
// when the file cannot be read, or has become shorter since it was opened. Local; reading from several threads is safe.
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
  std::int64_t data_begin = 0;  // bytes
  std::int64_t num_tokens = 0;
};

// What a layout is seen from: the first bytes of a file.
inline constexpr std::int64_t kTokenHeadBytes = 1024;

// `head` is the first kTokenHeadBytes of a file of `size_bytes`, or all there are. `key` and `path` are what errors
// name.
TokenLayout parse_token_layout(std::span<const std::byte> head, std::int64_t size_bytes, TokenKind kind,
                               std::string_view key, std::string_view path);

// out[i] = token i of the bytes behind a layout's data_begin; raw.size() is out.size() * token_bytes.
void widen_tokens(std::span<const std::byte> raw, std::size_t token_bytes, std::span<std::int64_t> out);

class TokenStream {
 public:
  TokenStream(const std::filesystem::path& path, TokenKind kind, std::string_view key = "data.path");

  std::int64_t size() const { return layout_.num_tokens; }
  const TokenLayout& layout() const { return layout_; }
  const std::string& path() const { return file_.path(); }

  // Tokens [begin, begin + out.size()).
  void read(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  InputFile file_;
  TokenLayout layout_;
};

}  // namespace zero
