// Files of a checkpoint: written front to back past the page cache, read with every byte vouched for.
//
//   BlockFileWriter writer("step-5.tmp/rank-00000.safetensors", size_bytes);
//   writer.append(bytes);                          // any pieces, in order
//   const BlockSums sums = writer.finish();        // all of it is durable
//
//   BlockFileReader reader("step-5/rank-00000.safetensors", sums);
//   reader.read_block(3, block);                   // bytes 3 * 4 MiB and on, of which the sum was compared
//
// A sum is XXH3 (64 bits) of 4 MiB; the last block is what is left. Local; throws IoError with the path, the operation
// and the bytes. A file whose bytes are not those that were written is an IoError with error_number() 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zero/base/allocation.h"
#include "zero/base/file.h"
#include "zero/memory/disk_requests.h"
#include "zero/memory/file_calls.h"

namespace zero {

inline constexpr std::int64_t kSumBlockBytes = std::int64_t{4} << 20;

constexpr std::int64_t num_sum_blocks(std::int64_t bytes) {
  return (bytes + kSumBlockBytes - 1) / kSumBlockBytes;
}

struct BlockSums {
  std::int64_t size_bytes = 0;
  std::vector<std::uint64_t> sums;  // by block
  bool operator==(const BlockSums&) const = default;
};

class BlockFileWriter {
 public:
  // A new file, for this user alone, with room for all of it.
  BlockFileWriter(const std::string& path, std::int64_t size_bytes, const FileCalls& calls = FileCalls::kernel());

  void append(std::span<const std::byte> bytes);
  BlockSums finish();  // once, when size_bytes were appended

 private:
  static constexpr std::size_t kBlocks = 4;  // one is filled while the others are written
  struct Block {
    std::span<std::byte> memory;
    DiskRequests::Account account;
  };
  void write_block();
  void wait(const Block& block);
  void check(int result, const char* operation) const;

  std::string path_;
  const FileCalls& calls_;
  FileDescriptor file_;
  Allocation memory_;
  std::array<Block, kBlocks> blocks_;
  std::size_t current_ = 0;   // block
  std::size_t filled_ = 0;    // bytes of it
  std::int64_t written_ = 0;  // bytes whose write was begun
  BlockSums content_;
  std::unique_ptr<DiskRequests> requests_;  // last: it waits for what is under way
};

class BlockFileReader {
 public:
  // Throws IoError where it is no regular file of that size.
  BlockFileReader(const std::string& path, BlockSums content, const FileCalls& calls = FileCalls::kernel());

  std::int64_t num_blocks() const { return num_sum_blocks(content_.size_bytes); }
  // `into` has kSumBlockBytes; returns the bytes of that block.
  std::span<const std::byte> read_block(std::int64_t block, std::span<std::byte> into) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  BlockSums content_;
  const FileCalls& calls_;
  FileDescriptor file_;
};

}  // namespace zero
