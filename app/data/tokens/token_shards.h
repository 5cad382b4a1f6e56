// TokenShards: the tokens of several files as one stream, in the order of the files.
//
//   const TokenShards shards({{"train_000001.bin", "train_000002.bin"}}, TokenKind::kTokens, "data.path");
//   shards.size()                       // number of tokens in all files
//   shards.read(begin, tokens)          // may cross from one file into the next
//   shards.place(p).path                // the file that has token p
//
// The cut into files only changes the file names in errors: `zero tokenize --shard-tokens` cuts a text anywhere, also
// within a document. Files stay open, and only the tokens that a caller asks for are read.
//
// Local; reading from several threads is safe. Throws ConfigError(key, path) if TokenStream refuses a file, or if a
// file has no tokens or is named twice. Also if a file has another form or width than the first file.
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
  // Only tokens [begin, end) will be read. Files without such tokens are checked, and closed again.
  TokenShards(const DataFiles& files, TokenKind kind, std::string_view key, std::int64_t begin = 0,
              std::int64_t end = std::numeric_limits<std::int64_t>::max());
  TokenShards(TokenStream stream);

  std::int64_t size() const { return ends_.back(); }
  std::size_t token_bytes() const { return token_bytes_; }
  const DataFiles& files() const { return files_; }

  void read(std::int64_t begin, std::span<std::int64_t> out) const;

  struct Place {
    const std::string& path;
    std::int64_t position = 0;  // position in that file
  };
  Place place(std::int64_t position) const;

 private:
  std::size_t shard_of(std::int64_t position) const;
  std::int64_t begin_of(std::size_t shard) const { return shard == 0 ? 0 : ends_[shard - 1]; }

  DataFiles files_;
  std::vector<std::int64_t> ends_;                   // end of each file, as a position in the stream
  std::vector<std::optional<TokenStream>> streams_;  // empty: the file is closed
  std::size_t token_bytes_ = 1;
};

}  // namespace zero
