// Files of a checkpoint: written front to back past the page cache, read with every byte vouched for.
//
//   BlockFileWriter writer("step-5.tmp/rank-00000.safetensors", size_bytes);
//   writer.append(bytes);                          // any pieces, in order
//   const BlockSums sums = writer.finish();        // all of it is durable
//
//   const SourceFolder folder("step-5");
//   BlockFileReader reader(folder, "rank-00000.safetensors", sums);
//   reader.read_block(3);                          // bytes 3 * 4 MiB and on, of which the sum was compared
//
// A sum is XXH3 (64 bits) of 4 MiB; the last block is what is left. Both go past the page cache where the file system
// lets them, with several requests of 1 MiB in flight: blocks that are read in order are read ahead. Local; throws
// IoError with the path, the operation and the bytes. A damaged file is an IoError with error_number() 0.
//
// The names of files to read may come from a stranger. So SourceFolder holds the folder open, and opens only regular
// files in it, whatever a name says and whatever is renamed meanwhile. A file with several names (hard links, as `cp
// -al` makes them) is read as any other: every byte is vouched for.
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

#include "zero/base/allocation.h"
#include "zero/base/file.h"
#include "zero/checkpoint/block_sums.h"
#include "zero/memory/disk_requests.h"
#include "zero/memory/file_calls.h"

namespace zero {

// Memory of some blocks, in turn, and the requests that move them.
class BlocksInFlight {
 public:
  static constexpr std::size_t kFewest = 2, kMost = 8;  // one that is filled or used, the others on their way
  // As many as `bytes` hold, of these.
  static constexpr std::size_t blocks_in(std::int64_t bytes) {
    return std::clamp(static_cast<std::size_t>(bytes / kSumBlockBytes), kFewest, kMost);
  }

  // Of a file of `file_bytes`: no more blocks than it has.
  BlocksInFlight(const std::string& path, int file, std::int64_t file_bytes, const FileCalls& calls,
                 std::size_t num_blocks = kMost);

  std::size_t size() const { return num_blocks_; }

  std::span<std::byte> memory(std::int64_t block) const;
  // Begins to move the first `bytes` of it, rounded up to whole pages.
  void start(IoOperation operation, std::int64_t block, std::size_t bytes);
  // Until nothing of it is under way. wait() throws what went wrong with it.
  void settle(std::int64_t block);
  void wait(std::int64_t block);

 private:
  std::size_t slot(std::int64_t block) const { return static_cast<std::size_t>(block) % num_blocks_; }

  std::size_t num_blocks_;
  Allocation memory_;
  std::array<DiskRequests::Account, kMost> accounts_;
  DiskRequests requests_;  // last: it waits for what is under way
};

class BlockFileWriter {
 public:
  // A new file, for this user alone, with room for all of it.
  BlockFileWriter(const std::string& path, std::int64_t size_bytes, const FileCalls& calls = FileCalls::kernel());

  void append(std::span<const std::byte> bytes);
  BlockSums finish();  // once, when size_bytes were appended

 private:
  void write_block();
  void check(int result, const char* operation) const;

  std::string path_;
  const FileCalls& calls_;
  FileDescriptor file_;
  BlocksInFlight blocks_;
  std::size_t filled_ = 0;    // bytes of the current block
  std::int64_t written_ = 0;  // bytes whose write was begun
  BlockSums content_;
};

class SourceFolder {
 public:
  explicit SourceFolder(const std::filesystem::path& path, const FileCalls& calls = FileCalls::kernel());

  struct File {
    FileDescriptor descriptor;  // for reading
    std::int64_t size_bytes = 0;
  };
  [[nodiscard]] File open(const std::string& name) const;
  // All of a file that is not larger than allowed; its size is looked at before memory is taken.
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
  // `folder` must outlive it. `num_blocks`: those that are held at a time. Throws IoError where it is no regular file
  // of that size.
  BlockFileReader(const SourceFolder& folder, std::string name, BlockSums content,
                  std::size_t num_blocks = BlocksInFlight::kMost);

  std::int64_t num_blocks() const { return num_sum_blocks(content_.size_bytes); }
  // Valid until the next call.
  [[nodiscard]] std::span<const std::byte> read_block(std::int64_t block);
  // Bytes that will be wanted, in the run-th stretch (from 1 on, rising) that is read of this file before another's
  // turn. Once any are said, nothing else is read ahead, and nothing of the next stretch.
  void expect(std::int64_t offset, std::int64_t bytes, int run);
  // Has expect() named a byte of it?
  bool expects(std::int64_t block) const { return run_of(block) != 0; }
  // Closes the file until the next call, and gives back the memory that reading takes.
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
  std::vector<int> runs_;                   // by block, the first that wants it, 0: none; empty: all are of one
  FileDescriptor file_;                     // none while it rests
  std::unique_ptr<BlocksInFlight> blocks_;  // null while it rests
  std::int64_t next_ = 0;                   // block that was asked for last, and one
  std::int64_t begun_ = 0;                  // blocks from next_ to it are on their way
};

}  // namespace zero
