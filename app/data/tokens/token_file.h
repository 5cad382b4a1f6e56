// TokenFileWriter: a file of tokens in the form of llm.c, which token_stream.h reads.
//
//   TokenFileWriter writer("train.bin", tokenizer.size());
//   writer.append(tokens);
//   writer.finish();              // only now the file is there
//
// uint16 tokens for a vocabulary of up to 65,536, else uint32. What is not finished leaves no file behind. Local. Throws
// IoError.
//
// TokenShardWriter writes the same tokens into several such files, each of as many tokens, the last of the rest:
//
//   TokenShardWriter shards("train.bin", tokenizer.size(), 100'000'000);    // train_000001.bin, train_000002.bin, ...
//
// They get their names together, at finish(): a pattern such as train_*.bin never finds a part of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "zero/base/files/file.h"

namespace zero {

// For what a user names as output: a file that is there and no such file is not replaced. ConfigError(key).
void require_token_output(std::string_view key, const std::filesystem::path& path);

class TokenFileWriter {
 public:
  TokenFileWriter(std::filesystem::path path, std::int64_t vocab);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  ~TokenFileWriter();

  void append(std::span<const std::int64_t> tokens);
  // Whole and on the disk, under another name, and closed. finish() does it, too.
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
  // ConfigError(key) where a shard of that name is there already: a pattern would take it along with the new ones.
  static void require_free(const std::filesystem::path& path, std::string_view key);

  TokenShardWriter(std::filesystem::path path, std::int64_t vocab, std::int64_t shard_tokens);

  void append(std::span<const std::int64_t> tokens);
  void finish();
  std::int64_t size() const;  // tokens
  std::int64_t num_shards() const { return std::ssize(shards_); }
  // Of the i-th shard, from 0.
  std::filesystem::path path(std::int64_t i) const;

 private:
  std::filesystem::path path_;
  std::int64_t vocab_, shard_tokens_;
  std::vector<std::unique_ptr<TokenFileWriter>> shards_;  // all but the last one are sealed
};

}  // namespace zero
