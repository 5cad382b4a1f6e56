#include "app/data/tokens/token_shards.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

void require_like_the_first(const TokenStream& first, const TokenStream& stream, std::string_view key) {
  const auto &wanted = first.layout(), &has = stream.layout();
  if (wanted.format == has.format) return;
  throw ConfigError(key, stream.path(),
                    fmt::format("holds {} tokens of {} bytes, but {} holds {} tokens of {} bytes", has.format,
                                has.token_bytes, first.path(), wanted.format, wanted.token_bytes),
                    "all files of a split must have one form: write this file again, or leave it out");
}

}  // namespace

TokenShards::TokenShards(const DataFiles& files, TokenKind kind, std::string_view key, std::int64_t begin,
                         std::int64_t end)
    : files_(files) {
  ZERO_CHECK(!files.empty(), "{}: no files", key);
  std::set<std::string_view> names;
  std::optional<TokenStream> first;
  for (const std::string& path : files_.paths) {
    if (!names.insert(path).second)
      throw ConfigError(key, path, "is named twice", "name each file once; a pattern may also match it");
    TokenStream stream(path, kind, key);
    if (stream.size() == 0) throw ConfigError(key, path, "the file has no tokens", "leave it out, or write it again");
    if (!first) first.emplace(path, kind, key);
    require_like_the_first(*first, stream, key);
    token_bytes_ = stream.layout().token_bytes;
    const std::int64_t before = ends_.empty() ? 0 : ends_.back();
    ends_.push_back(before + stream.size());
    auto& kept = streams_.emplace_back();
    if (before < end && ends_.back() > begin) kept.emplace(std::move(stream));
  }
}

TokenShards::TokenShards(TokenStream stream)
    : files_(stream.path()), ends_{stream.size()}, token_bytes_(stream.layout().token_bytes) {
  streams_.emplace_back(std::move(stream));
}

std::size_t TokenShards::shard_of(std::int64_t position) const {
  ZERO_CHECK(position >= 0 && position < size(), "token {} of {}", position, size());
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, position) - ends_.begin());
}

TokenShards::Place TokenShards::place(std::int64_t position) const {
  const std::size_t shard = shard_of(position);
  return {files_.paths[shard], position - begin_of(shard)};
}

void TokenShards::read(std::int64_t begin, std::span<std::int64_t> out) const {
  if (out.empty()) return;
  ZERO_CHECK(begin >= 0 && std::ssize(out) <= size() - begin, "tokens [{}, {}) of {}", begin, begin + std::ssize(out),
             size());
  for (std::size_t shard = shard_of(begin); !out.empty(); ++shard) {
    const auto& stream = streams_[shard];
    ZERO_CHECK(stream.has_value(), "token {} of {} is outside the open part", begin, files_.text());
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(out), ends_[shard] - begin));
    stream->read(begin - begin_of(shard), out.first(count));
    out = out.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

}  // namespace zero
