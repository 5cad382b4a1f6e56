#include "app/data/tokens/token_dataset.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

namespace zero {

TokenDataset::TokenDataset(TokenShards shards, std::int64_t begin, std::int64_t end, std::int64_t context,
                           std::string_view key)
    : shards_(std::move(shards)), begin_(begin), end_(end), context_(context) {
  ZERO_CHECK(0 <= begin && begin <= end && end <= shards_.size(), "tokens [{}, {}) of {}", begin, end, shards_.size());
  ZERO_CHECK(context > 0, "context {}", context);
  // A window and its targets need context + 1 tokens. With one more, the modulus of the sequential order is above 0.
  if (size() < context + 2) {
    const bool is_part = size() < shards_.size();
    const std::string context_remedy =
        size() > 2 ? fmt::format(", or a context (data.context, model.context) of at most {}", format_count(size() - 2))
                   : "";
    throw ConfigError(key, shards_.files().text(),
                      fmt::format("too short: {}, a context of {} needs at least {}",
                                  is_part ? fmt::format("{} of its {} tokens are in this split", format_count(size()),
                                                        format_count(shards_.size()))
                                          : fmt::format("{} are there", format_count(size(), "token")),
                                  format_count(context), format_count(context + 2)),
                      fmt::format("Give more data{}{}.", is_part ? ", another data.validation" : "", context_remedy));
  }
  if (shards_.token_bytes() == 1) return;
  classes_ = 0;
  scan([&](std::int64_t position, std::span<const std::int64_t> tokens) {
    const auto damaged = std::ranges::find_if(tokens, [](std::int64_t token) { return token >= kMostTokens; });
    if (damaged != tokens.end()) require_possible(position + (damaged - tokens.begin()), *damaged, key);
    const auto largest = std::max_element(tokens.begin(), tokens.end());
    if (*largest < classes_) return true;
    classes_ = *largest + 1;
    largest_at_ = position + (largest - tokens.begin());
    return true;
  });
}

SampleShape TokenDataset::shape() const {
  return {.context = context_, .classes = classes_};
}

std::int64_t TokenDataset::draw(Order order, std::uint64_t seed, std::int64_t g) const {
  if (order == Order::kShuffled) return shuffled_offset(seed, g, size() - context_);
  // Computes (g * context) mod m without overflow: g may be the index of the billionth step of a large world.
  const std::int64_t modulus = size() - context_ - 1;
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(g) * context_ % modulus);
}

std::int64_t TokenDataset::pass_size() const {
  return (size() - 1 + context_ - 1) / context_;
}

std::int64_t TokenDataset::fill(std::span<const std::int64_t> samples, Batch& batch) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  auto& input = batch.input.reset<std::int64_t>({rows, context_});
  auto& target = batch.target.reset<std::int64_t>({rows, context_});
  std::int64_t counted = 0;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const auto at = static_cast<std::ptrdiff_t>(row) * context_;
    const std::int64_t length = std::min(context_, size() - 1 - samples[row]);
    ZERO_CHECK(samples[row] >= 0 && length > 0, "sample at token {} of {}", samples[row], size());
    const std::span row_input(input.begin() + at, static_cast<std::size_t>(context_));
    const std::span row_target(target.begin() + at, static_cast<std::size_t>(context_));
    const auto valid = static_cast<std::size_t>(length);
    shards_.read(begin_ + samples[row], row_input.first(valid));
    shards_.read(begin_ + samples[row] + 1, row_target.first(valid));
    std::fill(row_input.begin() + length, row_input.end(), 0);
    std::fill(row_target.begin() + length, row_target.end(), kIgnoredTarget);
    counted += length;
  }
  return counted;
}

// Refuses a token that no vocabulary has. Tokens are read as unsigned, so a negative number in the file is a large
// token.
void TokenDataset::require_possible(std::int64_t position, std::int64_t token, std::string_view key) const {
  if (token < kMostTokens) return;
  const TokenShards::Place place = shards_.place(position);
  const std::string with_sign =
      token > INT32_MAX ? fmt::format(" ({} with a sign)", token - (std::int64_t{1} << 32)) : "";
  throw ConfigError(
      key, place.path,
      fmt::format("token {} (counted from 0) is {}{}, and no vocabulary has more than {} tokens",
                  format_count(place.position), token, with_sign, format_count(kMostTokens)),
      "the file is damaged, or holds no tokens of 32 bits: write it again (`zero tokenize`, or llm.c's scripts)");
}

std::string TokenDataset::named(std::int64_t position, std::int64_t token) const {
  const TokenShards::Place place = shards_.place(position);
  return fmt::format("token {} of {} is {}", format_count(place.position), place.path, token);
}

std::string TokenDataset::largest_token() const {
  return shards_.token_bytes() == 1 ? "" : named(largest_at_, classes_ - 1);
}

void TokenDataset::require_classes(std::int64_t classes, std::string_view key) const {
  if (shards_.token_bytes() > 1 && classes_ <= classes) return;
  scan([&](std::int64_t position, std::span<const std::int64_t> tokens) {
    const auto found = std::find_if(tokens.begin(), tokens.end(), [&](std::int64_t token) { return token >= classes; });
    if (found == tokens.end()) return true;
    throw ConfigError(key, fmt::format("{}", classes),
                      "too small: " + named(position + (found - tokens.begin()), *found),
                      fmt::format("set it to at least {}, or to 0 to use the data's. If the vocabulary has no such "
                                  "token, the file is damaged: write it again",
                                  classes_));
  });
}

template <typename Visit>
void TokenDataset::scan(Visit visit) const {
  std::vector<std::int64_t> block(1 << 16);
  for (std::int64_t at = begin_; at < end_; at += static_cast<std::int64_t>(block.size())) {
    const auto count = std::min(end_ - at, static_cast<std::int64_t>(block.size()));
    const auto tokens = std::span(block).first(static_cast<std::size_t>(count));
    shards_.read(at, tokens);
    if (!visit(at, tokens)) return;
  }
}

}  // namespace zero
