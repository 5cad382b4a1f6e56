#include "zero/base/mapped_file.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace zero {
namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheWholeFile) {
  const TemporaryFolder folder;
  const std::string contents(10'000, 'z');
  EXPECT_EQ(text_of(MappedFile(folder.write("file", contents))), contents);
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TemporaryFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("file", "")).bytes().empty());
}

TEST(MappedFile, BytesStayWhereTheyAreWhenItMoves) {
  const TemporaryFolder folder;
  MappedFile first(folder.write("file", "hello"));
  const auto* const data = first.bytes().data();
  MappedFile second = std::move(first);
  EXPECT_EQ(second.bytes().data(), data);
  EXPECT_TRUE(first.bytes().empty());
  MappedFile third(folder.write("other", "there"));
  third = std::move(second);
  EXPECT_EQ(text_of(third), "hello");
}

TEST(MappedFile, OutlivesTheNameOfTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "hello");
  const MappedFile file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(text_of(file), "hello");
}

TEST(MappedFile, RefusesWhatCannotBeMapped) {
  EXPECT_TRUE(says(message_of<IoError>([] { MappedFile("/no/such/file"); }), "/no/such/file: open"));
  EXPECT_TRUE(says(message_of<IoError>([] { MappedFile("/tmp"); }), "not a regular file"));
  EXPECT_TRUE(says(message_of<IoError>([] { MappedFile("/dev/zero"); }), "not a regular file"));
}

}  // namespace
}  // namespace zero
