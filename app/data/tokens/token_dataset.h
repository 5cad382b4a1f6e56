// TokenDataset: windows of `context` tokens over a part of a stream of tokens.
//
// A sample at position p is tokens [p, p + context), its targets [p + 1, p + context + 1). With n tokens in the part:
//   shuffled     p = shuffled_offset(seed, g, n - context): any window
//   sequential   p = (g * context) mod (n - context - 1)
//   pass         p = 0, context, 2 context ...: all n - 1 targets. The last window is padded to the same shape, with
//                token 0 and target kIgnoredTarget.
// A window may cross from a file into the next. So the cut into files changes no sample, and no file is too short.
// Positions are relative to the part; errors have the file and the position in it.
//
// Local. Throws ConfigError(key) if the part is too short, or if a token is too large for any vocabulary (kMostTokens).
// The file is then damaged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "app/data/sample/dataset.h"
#include "app/data/tokens/token_shards.h"

namespace zero {

// The most tokens of a vocabulary. The largest published one has less than a tenth of them.
inline constexpr std::int64_t kMostTokens = 1 << 24;

class TokenDataset : public Dataset {
 public:
  // The part is tokens [begin, end) of `shards`. Checks every token of it once, unless tokens are bytes.
  TokenDataset(TokenShards shards, std::int64_t begin, std::int64_t end, std::int64_t context,
               std::string_view key = "data.path");

  SampleShape shape() const override;
  std::int64_t size() const override { return end_ - begin_; }
  std::int64_t draw(Order order, std::uint64_t seed, std::int64_t g) const override;
  std::int64_t pass_size() const override;
  std::int64_t pass_sample(std::int64_t i) const override { return i * context_; }
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  std::string largest_token() const override;
  void require_classes(std::int64_t classes, std::string_view key) const override;

 private:
  void require_possible(std::int64_t position, std::int64_t token, std::string_view key) const;
  // Returns "token 150 of tokens.bin is 199".
  std::string named(std::int64_t position, std::int64_t token) const;
  // Calls visit(position in the stream, tokens) over the part, block by block, until it returns false.
  template <typename Visit>
  void scan(Visit visit) const;

  TokenShards shards_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t context_;
  std::int64_t classes_ = 256;
  std::int64_t largest_at_ = 0;  // position in the stream of the first token classes_ - 1
};

}  // namespace zero
