// TokenDataset: windows of `context` tokens over one part of a stream of tokens, which lies in one file or several.
//
// A sample at position p is tokens [p, p + context), its targets [p + 1, p + context + 1). With n tokens in the part:
//   shuffled     p = shuffled_offset(seed, g, n - context), every window there is
//   sequential   p = (g * context) mod (n - context - 1)
//   one pass     p = 0, context, 2 context ...: all n - 1 targets; what the last window lacks is padded (token 0,
//                target kIgnoredTarget), so that its shape is like the others'
// Windows go from one file into the next, as though they were one: a cut into files changes no sample, and no file is too
// short. Positions are relative to the part; errors give the file and the position in it. ConfigError(key) when the part is too short, and
// for a token that no vocabulary has (kMostTokens): the file is damaged.
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
  // The part is tokens [begin, end) of `shards`. Looks at every token of it once, unless they are bytes.
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
  // "token 150 of tokens.bin is 199"
  std::string named(std::int64_t position, std::int64_t token) const;
  // Calls visit(position in the stream, tokens) over the part, block by block, until it returns false.
  template <typename Visit>
  void scan(Visit visit) const;

  TokenShards shards_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t context_;
  std::int64_t classes_ = 256;
  std::int64_t largest_at_ = 0;  // in the stream: the first token of classes_ - 1
};

}  // namespace zero
