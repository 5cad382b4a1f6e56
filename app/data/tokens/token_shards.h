// TokenShards: the tokens of several files as one stream, in the order of the files.
//
//   const TokenShards shards({{"train_000001.bin", "train_000002.bin"}}, TokenKind::kTokens, "data.path");
//   shards.size()                       // of all files
//   shards.read(begin, tokens)          // may cross from one file into the next
//   shards.place(p).path                // the file that has token p
//
// How a stream is cut into files changes nothing but the names in errors: `zero tokenize --shard-tokens` cuts a text
// anywhere, and documents end within files as they end between them. Files stay open; only the tokens that are asked for
// are read. ConfigError(key, path) for a file that TokenStream refuses, one without tokens, one of another form or width
// than the first, and one that is named twice. Local; reading from several threads is safe.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/files/data_files.h"

#include "app/data/tokens/token_stream.h"

namespace zero {

class TokenShards {
 public:
  // Only tokens [begin, end) will be read: files without any of them are looked at, and closed again.
  TokenShards(const DataFiles& files, TokenKind kind, std::string_view key, std::int64_t begin = 0,
              std::int64_t end = std::numeric_limits<std::int64_t>::max());
  TokenShards(TokenStream stream);

  std::int64_t size() const { return ends_.back(); }
  std::size_t token_bytes() const { return token_bytes_; }
  const DataFiles& files() const { return files_; }

  void read(std::int64_t begin, std::span<std::int64_t> out) const;

  struct Place {
    const std::string& path;
    std::int64_t position = 0;  // in that file
  };
  Place place(std::int64_t position) const;

 private:
  std::size_t shard_of(std::int64_t position) const;
  std::int64_t begin_of(std::size_t shard) const { return shard == 0 ? 0 : ends_[shard - 1]; }

  DataFiles files_;
  std::vector<std::int64_t> ends_;                   // of each file, in tokens of all
  std::vector<std::optional<TokenStream>> streams_;  // nothing: closed
  std::size_t token_bytes_ = 1;
};

}  // namespace zero
