#include "app/launch/held/memory_files.h"

#include <array>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/launcher/records.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

using Names = std::vector<std::string>;

FileDescriptor holding(std::string_view text) {
  FileDescriptor file = make_memory_file("test", text.size());
  EXPECT_EQ(pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return file;
}

std::string put(MemoryFiles& kept, const std::string& name) {
  return kept.put(name, holding("of " + name));
}

std::string text_of(const MemoryFiles& kept, std::string_view name) {
  return read_memory_file(kept.find(name), 1000);
}

TEST(MemoryFiles, ListsNamesInOrderByPrefix) {
  MemoryFiles kept;
  for (const char* name : {"b/1", "a/2", "b/0", "a", "ab"}) EXPECT_EQ(put(kept, name), "");
  EXPECT_EQ(kept.names(), (Names{"a", "a/2", "ab", "b/0", "b/1"}));
  EXPECT_EQ(kept.names("a"), (Names{"a", "a/2", "ab"}));
  EXPECT_EQ(kept.names("b/"), (Names{"b/0", "b/1"}));
  EXPECT_EQ(kept.names("c"), Names{});
  EXPECT_EQ(text_of(kept, "a/2"), "of a/2");
  EXPECT_EQ(kept.find("a/"), -1) << "a prefix is not a name";
}

TEST(MemoryFiles, SecondPutReplacesTheFirst) {
  MemoryFiles kept;
  EXPECT_EQ(kept.put("a", holding("old")), "");
  EXPECT_EQ(kept.put("a", holding("new")), "");
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(text_of(kept, "a"), "new");
}

TEST(MemoryFiles, OnlyMemoryFilesAreKept) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor reader(ends[0]);
  MemoryFiles kept;
  EXPECT_TRUE(says(kept.put("a", FileDescriptor(ends[1])), "is no memory file"));
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), 0) << "a refused file is closed";
  EXPECT_TRUE(says(kept.put("a", FileDescriptor::open("/dev/null", O_RDONLY)), "is no memory file"));
  EXPECT_TRUE(says(kept.put("a", FileDescriptor()), "no descriptor came with it"));
  EXPECT_EQ(kept.size(), 0u);
}

TEST(MemoryFiles, RefusesNamesWithOtherLetters) {
  MemoryFiles kept;
  const std::string longest(kLongestMemoryName, 'x');
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\n"), longest + "x"})
    EXPECT_TRUE(says(kept.put(name, holding("x")), "a name has 1 to 200 bytes")) << name;
  EXPECT_EQ(put(kept, longest), "");
  EXPECT_EQ(kept.names(), Names{longest});
}

TEST(MemoryFiles, NeverMoreNamesThanAreAllowed) {
  MemoryFiles kept(2);
  EXPECT_EQ(put(kept, "a"), "");
  EXPECT_EQ(put(kept, "b"), "");
  EXPECT_TRUE(says(put(kept, "c"), "2 names are kept already"));
  EXPECT_EQ(put(kept, "b"), "") << "it replaces the older file";
  EXPECT_EQ(kept.remove("a"), "");
  EXPECT_EQ(put(kept, "c"), "");
  EXPECT_EQ(kept.names(), (Names{"b", "c"}));
}

// A rename moves all names with the first prefix, and removes all old names with the second.
TEST(MemoryFiles, RenameReplacesWholePrefix) {
  MemoryFiles kept;
  for (const char* name : {"new/tmp/0", "new/tmp/1", "old/0", "old/7", "other"}) put(kept, name);
  EXPECT_EQ(kept.rename("new/tmp/", "old/"), "");
  EXPECT_EQ(kept.names(), (Names{"old/0", "old/1", "other"}));
  EXPECT_EQ(text_of(kept, "old/0"), "of new/tmp/0");
}

TEST(MemoryFiles, RefusedRenameChangesNothing) {
  MemoryFiles kept;
  put(kept, "a/1");
  put(kept, "b");
  EXPECT_TRUE(says(kept.rename("c", "d"), "no name begins so"));
  EXPECT_TRUE(says(kept.rename("b", ""), "a name has 1 to 200 bytes"));
  EXPECT_TRUE(says(kept.rename("b", "?"), "a name has 1 to 200 bytes"));
  EXPECT_TRUE(says(kept.rename("a", std::string(kLongestMemoryName, 'x')), "would have 202 bytes"));
  EXPECT_EQ(kept.names(), (Names{"a/1", "b"}));
}

TEST(MemoryFiles, RemovingMissingNameIsNoError) {
  MemoryFiles kept;
  put(kept, "a");
  EXPECT_EQ(kept.remove("b"), "");
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept.remove(""), "") << "all of them";
  EXPECT_EQ(kept.size(), 0u);
}

TEST(ReadKept, GivesWhatIsThere) {
  const FileDescriptor file = holding("twelve bytes");
  EXPECT_EQ(read_memory_file(file.get(), 6), "twelve");
  EXPECT_EQ(read_memory_file(file.get(), 1000), "twelve bytes");
  EXPECT_EQ(ftruncate(file.get(), 3), 0);  // by a rank that still has the file
  EXPECT_EQ(read_memory_file(file.get(), 6), "twe");
  EXPECT_THROW(read_memory_file(-1, 1), IoError);
}

}  // namespace
}  // namespace zero
