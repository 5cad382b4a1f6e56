// Any bytes as a file of tokens: refused by a ConfigError, or every token the layout promises can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "zero/base/error.h"
#include "zero/data/token_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zero;
  const auto file = std::as_bytes(std::span(data, size));
  for (const TokenKind kind : {TokenKind::kText, TokenKind::kTokens}) {
    try {
      const TokenLayout layout = parse_token_layout(file, kind, "data.path", "fuzz");
      const auto needed = layout.data_begin + static_cast<std::size_t>(layout.num_tokens) * layout.token_bytes;
      if (layout.num_tokens < 0 || needed != size) std::abort();
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(layout.num_tokens));
      read_tokens(file, layout, 0, tokens);
      for (const std::int64_t token : tokens)
        if (token < 0 || token >= std::int64_t{1} << (8 * layout.token_bytes)) std::abort();
    } catch (const ConfigError&) {
    }
  }
  return 0;
}
