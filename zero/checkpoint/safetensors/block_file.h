// BlockFileWriter, BlockFileReader, SourceFolder: files of a checkpoint, written in order, and verified when read.
//
//   BlockFileWriter writer("step-5.tmp/rank-00000.safetensors", size_bytes);
//   writer.append(bytes);                          // any pieces, in order
//   const BlockSums sums = writer.finish();        // all of it is durable
//
//   const SourceFolder folder("step-5");
//   BlockFileReader reader(folder, "rank-00000.safetensors", sums);
//   reader.read_block(3);                          // the bytes from 3 * 4 MiB on, after their sum was compared
//
// A sum is XXH3 (64 bits) of 4 MiB; the last block may be smaller. Writer and reader bypass the page cache if the file
// system allows it, with several requests of 1 MiB in flight. Blocks that are read in order are read ahead. Local;
// throws IoError with the path, the operation and the bytes. A damaged file is an IoError with error_number() 0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zero/base/files/file.h"
#include "zero/base/process/allocation.h"
#include "zero/checkpoint/safetensors/block_sums.h"
#include "zero/memory/disk/disk_requests.h"
#include "zero/memory/io/file_calls.h"

namespace zero {

// Memory of some blocks, used in turn, and the requests that read or write them.
class BlocksInFlight {
 public:
  static constexpr std::size_t kFewest = 2, kMost = 8;  // one is filled or used, the others are in transfer
  // Returns how many blocks fit into `bytes`, within these bounds.
  static constexpr std::size_t blocks_in(std::int64_t bytes) {
    return std::clamp(static_cast<std::size_t>(bytes / kSumBlockBytes), kFewest, kMost);
  }

  // `file_bytes`: the size of the file. It gets no more blocks than the file has.
  BlocksInFlight(const std::string& path, int file, std::int64_t file_bytes, const FileCalls& calls,
                 std::size_t num_blocks = kMost);

  std::size_t size() const { return num_blocks_; }

  std::span<std::byte> memory(std::int64_t block) const;
  // Begins to transfer the first `bytes` of a block, rounded up to whole pages.
  void start(IoOperation operation, std::int64_t block, std::size_t bytes);
  // Wait until no request of the block is in flight. wait() also throws the error of such a request.
  void settle(std::int64_t block);
  void wait(std::int64_t block);

 private:
  std::size_t slot(std::int64_t block) const { return static_cast<std::size_t>(block) % num_blocks_; }

  std::size_t num_blocks_;
  Allocation memory_;
  std::array<DiskRequests::Account, kMost> accounts_;
  DiskRequests requests_;  // last: its destructor waits for requests in flight
};

class BlockFileWriter {
 public:
  // Creates a file that only this user may read, with all of its space reserved.
  BlockFileWriter(const std::string& path, std::int64_t size_bytes, const FileCalls& calls = FileCalls::kernel());

  void append(std::span<const std::byte> bytes);
  BlockSums finish();  // called once, after size_bytes were appended

 private:
  void write_block();
  void check(int result, const char* operation) const;

  std::string path_;
  const FileCalls& calls_;
  FileDescriptor file_;
  BlocksInFlight blocks_;
  std::size_t filled_ = 0;    // bytes of the current block
  std::int64_t written_ = 0;  // bytes whose write has begun
  BlockSums content_;
};

// Returns the name of the replaced folder while a save without an atomic exchange takes its name (PublishedFolder).
std::filesystem::path set_aside(const std::filesystem::path& folder);

// The folder from which a checkpoint's files are read. Names of files may come from an untrusted source. So it holds
// the folder open and opens only regular files in it, whatever a name contains and whatever is renamed meanwhile. A
// file with several names (hard links, as `cp -al` makes them) is read like any other, because every byte is verified.
// If the folder, or the folder around it, is missing, and a save has set it aside, that one is read.
class SourceFolder {
 public:
  explicit SourceFolder(const std::filesystem::path& path, const FileCalls& calls = FileCalls::kernel());

  struct File {
    FileDescriptor descriptor;  // for reading
    std::int64_t size_bytes = 0;
  };
  [[nodiscard]] File open(const std::string& name) const;
  // Returns a whole file. Throws if it is larger than `most_bytes`, before memory is allocated.
  [[nodiscard]] std::string read_text(const std::string& name, std::int64_t most_bytes) const;
  std::string path_of(const std::string& name) const { return (path_ / name).string(); }
  const FileCalls& calls() const { return calls_; }

 private:
  std::filesystem::path path_;
  const FileCalls& calls_;
  FileDescriptor folder_;
};

class BlockFileReader {
 public:
  // `folder` must outlive the reader. `num_blocks`: blocks in memory at a time. Throws IoError if the name is no
  // regular file of that size.
  BlockFileReader(const SourceFolder& folder, std::string name, BlockSums content,
                  std::size_t num_blocks = BlocksInFlight::kMost);

  std::int64_t num_blocks() const { return num_sum_blocks(content_.size_bytes); }
  // The bytes are valid until the next call.
  [[nodiscard]] std::span<const std::byte> read_block(std::int64_t block);
  // Announces bytes that will be read in stretch `run` of this file. Stretches are numbered from 1 in the order of
  // reading; between two of them, other files are read. After the first call, only announced blocks of the same stretch
  // are read ahead.
  void expect(std::int64_t offset, std::int64_t bytes, int run);
  // Returns true if expect() has announced a byte of the block.
  bool expects(std::int64_t block) const { return run_of(block) != 0; }
  // Closes the file until the next call, and frees the memory for reading.
  void rest();
  const std::string& path() const { return path_; }

 private:
  FileDescriptor open() const;
  void start();
  void begin(std::int64_t block);
  int run_of(std::int64_t block) const { return runs_.empty() ? 0 : runs_[static_cast<std::size_t>(block)]; }
  void read_end(std::int64_t block);
  std::int64_t bytes_of(std::int64_t block) const {
    return std::min(kSumBlockBytes, content_.size_bytes - block * kSumBlockBytes);
  }

  const SourceFolder* folder_;
  std::string name_;
  std::string path_;
  BlockSums content_;
  std::size_t num_held_;
  std::vector<int> runs_;  // by block: the first stretch that needs it; 0: none; empty: all are one stretch
  FileDescriptor file_;    // closed while it rests
  std::unique_ptr<BlocksInFlight> blocks_;  // null while it rests
  std::int64_t next_ = 0;                   // block after the last one that was asked for
  std::int64_t begun_ = 0;                  // reads of the blocks from next_ to this one have begun
};

}  // namespace zero
