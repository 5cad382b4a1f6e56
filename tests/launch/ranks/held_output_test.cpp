#include "app/launch/ranks/held_output.h"

#include <array>
#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class HeldOutputTest : public testing::Test {
 protected:
  HeldOutputTest() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    reader_ = FileDescriptor(ends[0]);
    writer_ = FileDescriptor(ends[1]);  // blocking, like an inherited stream
    fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
  }

  std::string read_all() {
    std::string text;
    std::array<char, 4096> bytes;
    for (ssize_t got = 0; (got = ::read(reader_.get(), bytes.data(), bytes.size())) > 0;)
      text.append(bytes.data(), static_cast<std::size_t>(got));
    return text;
  }

  FileDescriptor reader_, writer_;
};

std::string line(std::size_t number) {
  return std::to_string(number) + std::string(number % 90, '.') + "\n";
}

TEST_F(HeldOutputTest, WhatIsTakenIsNotHeld) {
  HeldOutput out(writer_.get());
  out.write("a line\n");
  EXPECT_FALSE(out.waits());
  EXPECT_EQ(read_all(), "a line\n");
}

TEST_F(HeldOutputTest, HoldsUnreadOutputWithoutLoss) {
  HeldOutput out(writer_.get());
  std::string all, come;
  for (std::size_t i = 0; !out.full(); ++i) {
    out.write(line(i));  // must not block
    all += line(i);
  }
  EXPECT_TRUE(out.waits());
  EXPECT_GE(out.held_bytes(), HeldOutput::kMostBytes);
  out.write("and more\n");
  all += "and more\n";
  while (out.waits()) {
    const std::string part = read_all();
    ASSERT_FALSE(part.empty());
    EXPECT_EQ(part.back(), '\n') << "a line was torn";
    come += part;
    out.flush();
  }
  EXPECT_EQ(come + read_all(), all);
  EXPECT_EQ(fcntl(writer_.get(), F_GETFL) & O_NONBLOCK, 0) << "other processes also use the stream";
}

TEST_F(HeldOutputTest, ALongLineComesThroughToo) {
  HeldOutput out(writer_.get());
  const std::string text = std::string(300'000, 'x') + "\n";
  out.write(text);
  std::string come;
  while (come.size() < text.size()) {
    const std::string part = read_all();
    ASSERT_FALSE(part.empty());
    come += part;
    out.flush();
  }
  EXPECT_EQ(come, text);
}

TEST_F(HeldOutputTest, LostReaderEndsTheHolding) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // like the launcher
  HeldOutput out(writer_.get());
  while (!out.waits()) out.write(line(80));
  EXPECT_FALSE(out.reader_gone());
  reader_ = FileDescriptor();
  out.flush();
  EXPECT_TRUE(out.reader_gone());
  EXPECT_FALSE(out.waits());
  std::signal(SIGPIPE, before);
}

TEST_F(HeldOutputTest, DiscardedItWaitsForNobody) {
  HeldOutput out(writer_.get());
  while (!out.waits()) out.write(line(80));
  out.discard();
  EXPECT_FALSE(out.waits());
}

TEST(HeldOutputOfAFile, GoesOnWhereTheFileIs) {
  const TemporaryFolder folder;
  const auto path = folder.write("log", "before\n");
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(lseek(file.get(), 0, SEEK_END), 7);
  HeldOutput out(file.get());
  for (std::size_t i = 0; i < 2000; ++i) out.write(line(90));
  EXPECT_FALSE(out.waits());
  EXPECT_EQ(std::filesystem::file_size(path), 7 + 2000 * line(90).size());
}

}  // namespace
}  // namespace zero
