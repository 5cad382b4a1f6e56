// TokenFileWriter: writes a file of tokens in llm.c's form, which token_stream.h reads.
//
//   TokenFileWriter writer("train.bin", tokenizer.size());
//   writer.append(tokens);
//   writer.finish();              // creates train.bin
//
//   TokenShardWriter shards("train.bin", tokenizer.size(), 100'000'000);    // train_000001.bin, train_000002.bin, ...
//
// Tokens are uint16 for a vocabulary of up to 65,536, else uint32. A writer that is destroyed before finish() leaves no
// file. TokenShardWriter writes several files with the same number of tokens; the last file has the rest. finish()
// renames all of them at the end, so a pattern such as train_*.bin does not find an incomplete set.
//
// Local. Throws IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "zero/base/files/file.h"

namespace zero {

// Throws ConfigError(key) if `path` exists and is not a file of tokens: a user's other file must not be replaced.
void require_token_output(std::string_view key, const std::filesystem::path& path);

class TokenFileWriter {
 public:
  TokenFileWriter(std::filesystem::path path, std::int64_t vocab);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  ~TokenFileWriter();

  void append(std::span<const std::int64_t> tokens);
  // Completes the file under a temporary name, syncs it to the disk, and closes it. finish() also calls it.
  void seal();
  void finish();
  std::int64_t size() const { return num_tokens_; }  // tokens

 private:
  void write(std::span<const std::byte> bytes);

  std::filesystem::path path_, unfinished_;
  bool wide_ = false;
  bool is_finished_ = false;
  FileDescriptor file_;
  std::int64_t num_tokens_ = 0;
};

class TokenShardWriter {
 public:
  // Throws ConfigError(key) if a shard of this name exists, because a pattern would match it together with the new
  // shards.
  static void require_free(const std::filesystem::path& path, std::string_view key);

  TokenShardWriter(std::filesystem::path path, std::int64_t vocab, std::int64_t shard_tokens);

  void append(std::span<const std::int64_t> tokens);
  void finish();
  std::int64_t size() const;  // tokens
  std::int64_t num_shards() const { return std::ssize(shards_); }
  // Returns the path of the i-th shard, from 0.
  std::filesystem::path path(std::int64_t i) const;

 private:
  std::filesystem::path path_;
  std::int64_t vocab_, shard_tokens_;
  std::vector<std::unique_ptr<TokenFileWriter>> shards_;  // all shards but the last are sealed
};

}  // namespace zero
