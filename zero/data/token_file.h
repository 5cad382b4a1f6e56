// TokenFileWriter: a file of tokens in the form of llm.c, which token_stream.h reads.
//
//   TokenFileWriter writer("train.bin", tokenizer.size());
//   writer.append(tokens);
//   writer.finish();              // only now the file is there
//
// uint16 tokens for a vocabulary of up to 65,536, else uint32. What is not finished leaves no file behind. Local. Throws
// IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "zero/base/file.h"

namespace zero {

class TokenFileWriter {
 public:
  TokenFileWriter(std::filesystem::path path, std::int64_t vocab);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  ~TokenFileWriter();

  void append(std::span<const std::int64_t> tokens);
  void finish();
  std::int64_t size() const { return num_tokens_; }  // tokens

 private:
  void write(std::span<const std::byte> bytes);

  std::filesystem::path path_, unfinished_;
  bool wide_ = false;
  FileDescriptor file_;
  std::int64_t num_tokens_ = 0;
};

}  // namespace zero
