#include "zero/checkpoint/safetensors/block_file.h"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "zero/base/error/error.h"

#include "tests/memory/failing_calls.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

std::vector<std::byte> pattern(std::int64_t bytes) {
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  return data;
}

BlockSums write(const std::filesystem::path& path, const std::vector<std::byte>& data, std::size_t piece) {
  BlockFileWriter writer(path.string(), std::ssize(data));
  for (std::size_t begin = 0; begin < data.size(); begin += piece)
    writer.append(std::span(data).subspan(begin, std::min(piece, data.size() - begin)));
  return writer.finish();
}

std::vector<std::byte> read(const std::filesystem::path& path, const BlockSums& sums) {
  const SourceFolder folder(path.parent_path());
  BlockFileReader reader(folder, path.filename(), sums);
  std::vector<std::byte> data;
  for (std::int64_t i = 0; i < reader.num_blocks(); ++i) {
    const auto bytes = reader.read_block(i);
    data.insert(data.end(), bytes.begin(), bytes.end());
  }
  return data;
}

TEST(BlockFile, AnyPiecesComeBack) {
  const TemporaryFolder folder;
  int n = 0;
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{4096}, kSumBlockBytes - 1, kSumBlockBytes,
                                   kSumBlockBytes + 1, 5 * kSumBlockBytes + 12345}) {
    const auto data = pattern(bytes);
    const auto path = folder / std::to_string(n++);
    const BlockSums sums = write(path, data, 1000003);
    EXPECT_EQ(sums.size_bytes, bytes);
    EXPECT_EQ(std::filesystem::file_size(path), static_cast<std::uintmax_t>(bytes));
    EXPECT_EQ(read(path, sums), data);
  }
}

TEST(BlockFile, SumsIgnorePieces) {
  const TemporaryFolder folder;
  const auto data = pattern(2 * kSumBlockBytes + 77);
  EXPECT_EQ(write(folder / "a", data, 4099), write(folder / "b", data, data.size()));
}

TEST(BlockFileOnAnyDevice, FlippedBitNamesItsBlock) {
  const TemporaryFolder folder;
  auto data = pattern(2 * kSumBlockBytes + 100);
  const BlockSums sums = write(folder / "a", data, data.size());
  data[static_cast<std::size_t>(kSumBlockBytes) + 5] ^= std::byte{1};
  folder.write("b", {reinterpret_cast<const char*>(data.data()), data.size()});
  const SourceFolder source(folder.path());
  BlockFileReader reader(source, "b", sums);
  EXPECT_NO_THROW((void)reader.read_block(0));
  EXPECT_THROW((void)reader.read_block(1), IoError);
  EXPECT_NO_THROW((void)reader.read_block(2));
}

TEST(BlockFile, BlocksAreReadInAnyOrder) {
  const TemporaryFolder folder;
  const auto data = pattern(20 * kSumBlockBytes + 9);
  const BlockSums sums = write(folder / "a", data, data.size());
  const SourceFolder source(folder.path());
  BlockFileReader reader(source, "a", sums);
  for (const std::int64_t block : {0, 1, 2, 9, 10, 3, 3, 20, 0, 1, 19, 20}) {
    const auto bytes = reader.read_block(block);
    EXPECT_EQ(std::memcmp(bytes.data(), data.data() + block * kSumBlockBytes, bytes.size()), 0) << block;
    if (block == 10) reader.rest();
  }
}

TEST(BlockFile, RefusesAnotherSizeWithBoth) {
  const TemporaryFolder folder;
  const auto data = pattern(5000);
  const BlockSums sums = write(folder / "a", data, 5000);
  std::filesystem::resize_file(folder / "a", 4999);
  const SourceFolder source(folder.path());
  EXPECT_TRUE(says(message_of<IoError>([&] { BlockFileReader(source, "a", sums); }), "has 4999 bytes, not 5000"));
}

// A kernel without openat2(), so names are checked instead.
struct OlderKernel final : FileCalls {
  int open_in(int folder, const std::string& name, int flags) const override {
    return open_checked(folder, name, flags);
  }
};

TEST(BlockFile, RefusesNonFiles) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "c/folder");
  folder.write("secret", "x");
  folder.write("c/file", "x");
  std::filesystem::create_symlink(folder / "secret", folder / "c/link");
  std::filesystem::create_symlink("file", folder / "c/link-inside");
  std::filesystem::create_directory_symlink(folder.path(), folder / "c/up");
  ASSERT_EQ(::mkfifo((folder / "c/pipe").c_str(), 0600), 0);
  const OlderKernel older;
  for (const FileCalls* calls : {&FileCalls::kernel(), static_cast<const FileCalls*>(&older)}) {
    const SourceFolder source(folder / "c", *calls);
    const BlockSums one{.size_bytes = 1, .sums = {0}};
    EXPECT_NO_THROW(BlockFileReader(source, "file", one));
    for (const std::string name : {"folder", "link", "link-inside", "nothing", "pipe", "", ".", "..", "../secret",
                                   "../c/file", "folder/../../secret", "up/secret"})
      EXPECT_THROW(BlockFileReader(source, name, one), IoError) << "'" << name << "'";
    EXPECT_THROW(BlockFileReader(source, folder / "secret", one), IoError);
    EXPECT_THROW(BlockFileReader(source, "/proc/self/exe", one), IoError);
    EXPECT_TRUE(says(message_of<IoError>([&] { BlockFileReader(source, "link", one); }),
                     "link: open: is a link, and links are not followed; copy the folder with `cp -rL`"));
    EXPECT_TRUE(says(message_of<IoError>([&] { BlockFileReader(source, "pipe", one); }), "is not a regular file"));
  }
}

TEST(BlockFile, FolderStaysTheOpenedOne) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "c");
  std::filesystem::create_directory(folder / "other");
  const auto data = pattern(5000);
  const BlockSums sums = write(folder / "c/a", data, 5000);
  folder.write("other/a", "something else");
  const SourceFolder source(folder / "c");
  BlockFileReader reader(source, "a", sums);
  std::filesystem::rename(folder / "c", folder / "aside");
  std::filesystem::rename(folder / "other", folder / "c");
  EXPECT_NO_THROW((void)reader.read_block(0));
}

TEST(BlockFile, DoesNotOverwriteFiles) {
  const TemporaryFolder folder;
  const auto path = folder.write("a", "mine");
  EXPECT_THROW(BlockFileWriter(path.string(), 10), IoError);
  EXPECT_EQ(read_file(path), "mine");
}

TEST(BlockFile, EveryFailingCallIsTold) {
  const TemporaryFolder folder;
  const auto data = pattern(kSumBlockBytes + 1);
  const auto attempt = [&](auto set) {
    FailingCalls calls;
    set(calls);
    std::filesystem::remove(folder / "a");
    try {
      BlockFileWriter writer((folder / "a").string(), std::ssize(data), calls);
      writer.append(data);
      writer.finish();
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto expect_names = [&](const std::string& text, const char* what) {
    EXPECT_NE(text.find((folder / "a").string()), std::string::npos) << text;
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  expect_names(attempt([](FailingCalls& calls) { calls.on_create = -EACCES; }), "create");
  expect_names(attempt([](FailingCalls& calls) { calls.on_preallocate = -ENOSPC; }), "reserve 4194305 bytes");
  expect_names(attempt([](FailingCalls& calls) { calls.on_write = -EIO; }), "write");
  expect_names(attempt([](FailingCalls& calls) { calls.on_write = -ENOSPC; }), "No space left");
  expect_names(attempt([](FailingCalls& calls) { calls.on_resize = -EIO; }), "set the size");
  expect_names(attempt([](FailingCalls& calls) { calls.on_sync = -EIO; }), "fsync");
  EXPECT_EQ(attempt([](FailingCalls& calls) { calls.on_preallocate = -EOPNOTSUPP; }), "");
  EXPECT_EQ(attempt([](FailingCalls& calls) { calls.on_direct = -EINVAL; }), "");
}

}  // namespace
}  // namespace zero
