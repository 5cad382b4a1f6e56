#include "zero/checkpoint/safetensors/block_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/io/thread_queue.h"

namespace zero {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRequest = std::size_t{1} << 20;
constexpr int kDepth = 16;

// Returns the number of requests in flight: no more than the file has, because each has a thread.
int depth_for(std::int64_t file_bytes) {
  constexpr auto kBytes = static_cast<std::int64_t>(kRequest);
  return static_cast<int>(std::clamp<std::int64_t>((file_bytes + kBytes - 1) / kBytes, 1, kDepth));
}

FileDescriptor create_file(const std::string& path, const FileCalls& calls) {
  const int fd = calls.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (fd < 0) throw IoError(path, "create", -fd);
  return FileDescriptor(fd);
}

}  // namespace

BlocksInFlight::BlocksInFlight(const std::string& path, int file, std::int64_t file_bytes, const FileCalls& calls,
                               std::size_t num_blocks)
    : num_blocks_(std::clamp<std::size_t>(num_sum_blocks(file_bytes), 1, num_blocks)),
      memory_(allocate_host(num_blocks_ * static_cast<std::size_t>(kSumBlockBytes))),
      requests_(std::make_unique<ThreadQueue>(std::span(&file, 1), depth_for(file_bytes), calls),
                {.folders = {path}, .depth = depth_for(file_bytes)}) {}

std::span<std::byte> BlocksInFlight::memory(std::int64_t block) const {
  constexpr auto kBytes = static_cast<std::size_t>(kSumBlockBytes);
  return memory_.bytes().subspan(slot(block) * kBytes, kBytes);
}

void BlocksInFlight::start(IoOperation operation, std::int64_t block, std::size_t bytes) {
  DiskRequests::Account& account = accounts_[slot(block)];
  account = {};
  const auto pages = memory(block).first((bytes + kPage - 1) / kPage * kPage);
  for (std::size_t begin = 0; begin < pages.size(); begin += kRequest) {
    const std::int64_t offset = block * kSumBlockBytes + static_cast<std::int64_t>(begin);
    requests_.start({.operation = operation,
                     .offset = offset,
                     .memory = pages.subspan(begin, std::min(kRequest, pages.size() - begin)),
                     .place = offset},
                    account);
  }
}

void BlocksInFlight::settle(std::int64_t block) {
  requests_.wait(accounts_[slot(block)]);
}

void BlocksInFlight::wait(std::int64_t block) {
  settle(block);
  const DiskRequests::Account& account = accounts_[slot(block)];
  if (account.error) throw IoError(*account.error);
}

BlockFileWriter::BlockFileWriter(const std::string& path, std::int64_t size_bytes, const FileCalls& calls)
    : path_(path),
      calls_(calls),
      file_(create_file(path, calls)),
      blocks_(path, file_.get(), size_bytes, calls),
      content_{.size_bytes = size_bytes} {
  // On a full disk this fails, if the file system can tell.
  if (const int result = calls_.preallocate(file_.get(), size_bytes); result != 0 && result != -EOPNOTSUPP)
    throw IoError(path_, fmt::format("reserve {} bytes", size_bytes), -result);
  calls_.set_direct(file_.get(), true);  // refused by tmpfs, which then uses the page cache
}

void BlockFileWriter::check(int result, const char* operation) const {
  if (result < 0) throw IoError(path_, operation, -result);
}

void BlockFileWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t block = written_ / kSumBlockBytes;
    if (filled_ == 0) blocks_.wait(block);
    const auto memory = blocks_.memory(block);
    const std::size_t count = std::min(bytes.size(), memory.size() - filled_);
    std::memcpy(memory.data() + filled_, bytes.data(), count);
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ == memory.size()) write_block();
  }
}

// Writes whole pages. finish() cuts off what the last page has beyond the file's end.
void BlockFileWriter::write_block() {
  const std::int64_t block = written_ / kSumBlockBytes;
  const auto memory = blocks_.memory(block);
  const std::size_t padded = (filled_ + kPage - 1) / kPage * kPage;
  std::memset(memory.data() + filled_, 0, padded - filled_);
  blocks_.start(IoOperation::kWrite, block, filled_);
  content_.sums.push_back(block_sum(memory.first(filled_)));  // meanwhile the block is being written
  written_ += static_cast<std::int64_t>(filled_);
  filled_ = 0;
}

BlockSums BlockFileWriter::finish() {
  if (filled_ > 0) write_block();
  for (std::size_t block = 0; block < blocks_.size(); ++block) blocks_.wait(static_cast<std::int64_t>(block));
  ZERO_CHECK(written_ == content_.size_bytes, "{}: {} of {} bytes were appended", path_, written_, content_.size_bytes);
  check(calls_.resize(file_.get(), content_.size_bytes), "set the size");
  check(calls_.sync(file_.get()), "fsync");
  return content_;
}

namespace {

// Returns the error for a symbolic link, which might lead out of the folder.
IoError link_refused(const std::string& path) {
  return {path, "open", 0, "is a link, and links are not followed; copy the folder with `cp -rL`"};
}

}  // namespace

std::filesystem::path set_aside(const std::filesystem::path& folder) {
  return (folder.has_filename() ? folder : folder.parent_path()).string() + ".old.tmp";
}

SourceFolder::SourceFolder(const std::filesystem::path& path, const FileCalls& calls) : path_(path), calls_(calls) {
  const int flags = O_RDONLY | O_DIRECTORY;
  int fd = calls.open(path.string(), flags);
  const int missing = fd;
  for (const std::filesystem::path& aside : {set_aside(path), set_aside(path.parent_path()) / path.filename()}) {
    if (missing != -ENOENT || fd >= 0) break;
    fd = calls.open(aside.string(), flags);
    if (fd < 0) continue;
    ZERO_LOG(warn, "{} is missing: a save of that name was killed. The replaced checkpoint, {}, is read", path.string(),
             aside.string());
    path_ = aside;
  }
  if (fd < 0) throw IoError(path.string(), "open", -missing);
  folder_ = FileDescriptor(fd);
}

SourceFolder::File SourceFolder::open(const std::string& name) const {
  const auto opened = [&](int flags) {
    const int fd = calls_.open_in(folder_.get(), name, flags);
    if (fd == -ELOOP) throw link_refused(path_of(name));
    if (fd < 0) throw IoError(path_of(name), "open", -fd);
    return FileDescriptor(fd);
  };
  const auto size_of_file = [&](const FileDescriptor& file) {
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) throw IoError(path_of(name), "look at", errno);
    if (S_ISLNK(info.st_mode)) throw link_refused(path_of(name));
    if (!S_ISREG(info.st_mode)) throw IoError(path_of(name), "open", 0, "is not a regular file");
    return static_cast<std::int64_t>(info.st_size);
  };
  (void)size_of_file(opened(O_PATH | O_NOFOLLOW));  // a device must not be opened at all
  File file{.descriptor = opened(O_RDONLY | O_NONBLOCK)};
  file.size_bytes = size_of_file(file.descriptor);
  return file;
}

std::string SourceFolder::read_text(const std::string& name, std::int64_t most_bytes) const {
  const File file = open(name);
  if (file.size_bytes > most_bytes)
    throw IoError(path_of(name), "verify", 0,
                  fmt::format("has {} bytes; at most {} are allowed", file.size_bytes, most_bytes));
  std::string text(static_cast<std::size_t>(file.size_bytes), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = calls_.read(file.descriptor.get(), std::as_writable_bytes(std::span(text)).subspan(done),
                                      static_cast<std::int64_t>(done));
    if (count == -EINTR) continue;
    if (count <= 0)
      throw IoError(path_of(name), fmt::format("read of {} bytes", text.size() - done), static_cast<int>(-count), "");
    done += static_cast<std::size_t>(count);
  }
  return text;
}

BlockFileReader::BlockFileReader(const SourceFolder& folder, std::string name, BlockSums content,
                                 std::size_t num_blocks)
    : folder_(&folder),
      name_(std::move(name)),
      path_(folder.path_of(name_)),
      content_(std::move(content)),
      num_held_(num_blocks) {
  (void)open();
}

FileDescriptor BlockFileReader::open() const {
  SourceFolder::File file = folder_->open(name_);
  if (file.size_bytes != content_.size_bytes)
    throw IoError(path_, "verify", 0, fmt::format("has {} bytes, not {}", file.size_bytes, content_.size_bytes));
  return std::move(file.descriptor);
}

void BlockFileReader::start() {
  file_ = open();
  folder_->calls().set_direct(file_.get(), true);  // if refused, reads use the page cache
  blocks_ = std::make_unique<BlocksInFlight>(path_, file_.get(), content_.size_bytes, folder_->calls(), num_held_);
}

void BlockFileReader::expect(std::int64_t offset, std::int64_t bytes, int run) {
  ZERO_CHECK(offset >= 0 && offset + bytes <= content_.size_bytes, "{}: bytes {} to {}", path_, offset, offset + bytes);
  runs_.resize(static_cast<std::size_t>(num_blocks()));
  for (std::int64_t block = offset / kSumBlockBytes; block < num_sum_blocks(offset + bytes); ++block) {
    int& of_block = runs_[static_cast<std::size_t>(block)];
    if (of_block == 0) of_block = run;
  }
}

void BlockFileReader::rest() {
  blocks_ = nullptr;
  file_ = {};
  begun_ = next_;
}

void BlockFileReader::begin(std::int64_t block) {
  blocks_->start(IoOperation::kRead, block, static_cast<std::size_t>(bytes_of(block)) / kPage * kPage);
}

// Reads the part of a page at the file's end, which requests for whole pages cannot read.
void BlockFileReader::read_end(std::int64_t block) {
  const auto bytes = static_cast<std::size_t>(bytes_of(block)), whole = bytes / kPage * kPage;
  const std::int64_t offset = block * kSumBlockBytes + static_cast<std::int64_t>(whole);
  if (whole == bytes) return;
  ssize_t count;
  do count = folder_->calls().read(file_.get(), blocks_->memory(block).subspan(whole, kPage), offset);
  while (count == -EINTR);
  if (count < static_cast<ssize_t>(bytes - whole))
    throw IoError(path_, fmt::format("read of {} bytes at {}", bytes - whole, offset),
                  count < 0 ? static_cast<int>(-count) : 0, count < 0 ? "" : "the file ends before");
}

std::span<const std::byte> BlockFileReader::read_block(std::int64_t block) {
  ZERO_CHECK(block >= 0 && block < num_blocks(), "{}: block {} of {}", path_, block, num_blocks());
  if (blocks_ == nullptr) start();
  const bool in_order = block == next_;
  if (!in_order) {
    for (; next_ < begun_; ++next_) blocks_->settle(next_);
    next_ = begun_ = block;
  }
  if (begun_ == block) begin(begun_++);
  try {
    blocks_->wait(block);
    read_end(block);
  } catch (const IoError&) {
    rest();
    throw;
  }
  next_ = block + 1;
  const auto bytes = blocks_->memory(block).first(static_cast<std::size_t>(bytes_of(block)));
  // The caller uses one block; the others are for reading ahead.
  const auto ahead = static_cast<std::int64_t>(num_held_) - 1;
  const bool goes_on = runs_.empty() ? in_order : run_of(block) != 0;
  while (goes_on && begun_ < std::min(num_blocks(), next_ + ahead) && run_of(begun_) == run_of(block)) begin(begun_++);
  if (block_sum(bytes) != content_.sums[static_cast<std::size_t>(block)])
    throw IoError(path_, "verify", 0,
                  fmt::format("bytes {} to {} differ from the saved bytes", block * kSumBlockBytes,
                              block * kSumBlockBytes + std::ssize(bytes)));
  return bytes;
}

}  // namespace zero
