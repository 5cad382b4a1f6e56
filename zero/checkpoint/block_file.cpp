#include "zero/checkpoint/block_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL  // a header is all that is taken
#include <xxhash.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/memory/host_memory.h"
#include "zero/memory/thread_queue.h"

namespace zero {
namespace {

constexpr std::size_t kPage = 4096;

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

FileDescriptor open_file(const std::string& path, int flags, const FileCalls& calls) {
  const int fd = calls.open(path, flags | O_NOFOLLOW);
  if (fd < 0) throw IoError(path, (flags & O_CREAT) != 0 ? "create" : "open", -fd);
  return FileDescriptor(fd);
}

}  // namespace

BlockFileWriter::BlockFileWriter(const std::string& path, std::int64_t size_bytes, const FileCalls& calls)
    : path_(path),
      calls_(calls),
      file_(open_file(path, O_RDWR | O_CREAT | O_EXCL, calls)),
      memory_(allocate_host(kBlocks * static_cast<std::size_t>(kSumBlockBytes))),
      content_{.size_bytes = size_bytes} {
  // A full disk shows here where the file system can tell.
  if (const int result = calls_.preallocate(file_.get(), size_bytes); result != 0 && result != -EOPNOTSUPP)
    throw IoError(path_, fmt::format("reserve {} bytes", size_bytes), -result);
  calls_.set_direct(file_.get(), true);  // refused in memory (tmpfs): through the page cache then
  for (std::size_t i = 0; i < kBlocks; ++i)
    blocks_[i].memory =
        memory_.bytes().subspan(i * static_cast<std::size_t>(kSumBlockBytes), static_cast<std::size_t>(kSumBlockBytes));
  const int descriptor = file_.get();
  requests_ = std::make_unique<DiskRequests>(
      std::make_unique<ThreadQueue>(std::span(&descriptor, 1), static_cast<int>(kBlocks), calls_),
      DiskRequests::Options{.folders = {path_}, .depth = static_cast<int>(kBlocks)});
}

void BlockFileWriter::check(int result, const char* operation) const {
  if (result < 0) throw IoError(path_, operation, -result);
}

void BlockFileWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    Block& block = blocks_[current_];
    if (filled_ == 0) wait(block);
    const std::size_t count = std::min(bytes.size(), block.memory.size() - filled_);
    std::memcpy(block.memory.data() + filled_, bytes.data(), count);
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ == block.memory.size()) write_block();
  }
}

void BlockFileWriter::wait(const Block& block) {
  requests_->wait(block.account);
  if (block.account.error) throw IoError(*block.account.error);
}

// Whole pages: what the last one has beyond the file's end is cut off by finish().
void BlockFileWriter::write_block() {
  Block& block = blocks_[current_];
  content_.sums.push_back(sum_of(block.memory.first(filled_)));
  const std::size_t padded = (filled_ + kPage - 1) / kPage * kPage;
  std::memset(block.memory.data() + filled_, 0, padded - filled_);
  block.account = {};
  requests_->start(
      {.operation = IoOperation::kWrite, .offset = written_, .memory = block.memory.first(padded), .place = written_},
      block.account);
  written_ += static_cast<std::int64_t>(filled_);
  filled_ = 0;
  current_ = (current_ + 1) % kBlocks;
}

BlockSums BlockFileWriter::finish() {
  if (filled_ > 0) write_block();
  for (const Block& block : blocks_) wait(block);
  ZERO_CHECK(written_ == content_.size_bytes, "{}: {} of {} bytes were appended", path_, written_, content_.size_bytes);
  check(calls_.resize(file_.get(), content_.size_bytes), "set the size");
  check(calls_.sync(file_.get()), "fsync");
  return content_;
}

BlockFileReader::BlockFileReader(const std::string& path, BlockSums content, const FileCalls& calls)
    : path_(path),
      content_(std::move(content)),
      calls_(calls),
      file_(open_file(path, O_RDONLY | O_NONBLOCK, calls)) {  // a pipe would block
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) throw IoError(path_, "look at", errno);
  if (!S_ISREG(info.st_mode)) throw IoError(path_, "open", 0, "is no regular file");
  if (info.st_size != content_.size_bytes)
    throw IoError(path_, "verify", 0, fmt::format("has {} bytes, not {}", info.st_size, content_.size_bytes));
  ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

std::span<const std::byte> BlockFileReader::read_block(std::int64_t block, std::span<std::byte> into) const {
  const std::int64_t offset = block * kSumBlockBytes;
  const auto bytes = static_cast<std::size_t>(std::min(kSumBlockBytes, content_.size_bytes - offset));
  ZERO_CHECK(block >= 0 && block < num_blocks() && into.size() >= bytes, "{}: block {}", path_, block);
  for (std::size_t done = 0; done < bytes;) {
    const auto place = offset + static_cast<std::int64_t>(done);
    const ssize_t count = calls_.read(file_.get(), into.subspan(done, bytes - done), place);
    if (count == -EINTR) continue;
    if (count <= 0)
      throw IoError(path_, fmt::format("read of {} bytes at {}", bytes - done, place), static_cast<int>(-count),
                    count == 0 ? "the file ends before" : "");
    done += static_cast<std::size_t>(count);
  }
  const auto read = into.first(bytes);
  if (sum_of(read) != content_.sums[static_cast<std::size_t>(block)])
    throw IoError(path_, "verify", 0,
                  fmt::format("its bytes {} to {} are not those that were saved", offset,
                              offset + static_cast<std::int64_t>(bytes)));
  return read;
}

}  // namespace zero
