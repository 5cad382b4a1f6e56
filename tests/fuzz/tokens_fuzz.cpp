// Any bytes as a file of tokens: a ConfigError after only its head was read, or all tokens of the layout can be read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "zero/base/error/error.h"

#include "app/data/tokens/token_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zero;
  const auto file = std::as_bytes(std::span(data, size));
  // A separate copy, so the sanitizer notices a read beyond the head.
  const std::vector<std::byte> head(file.begin(), file.begin() + std::min(std::ssize(file), kTokenHeadBytes));
  for (const TokenKind kind : {TokenKind::kText, TokenKind::kTokens}) {
    try {
      const TokenLayout layout = parse_token_layout(head, std::ssize(file), kind, "data.path", "fuzz");
      const auto needed = layout.data_begin + layout.num_tokens * static_cast<std::int64_t>(layout.token_bytes);
      if (layout.num_tokens < 0 || needed != std::ssize(file)) std::abort();
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(layout.num_tokens));
      widen_tokens(file.subspan(static_cast<std::size_t>(layout.data_begin)), layout.token_bytes, tokens);
      for (const std::int64_t token : tokens)
        if (token < 0 || token >= std::int64_t{1} << (8 * layout.token_bytes)) std::abort();
    } catch (const ConfigError&) {
    }
  }
  return 0;
}
