#include "zero/comm/rendezvous/unix_socket.h"

#include <cstdint>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Result = UnixSocket::Result;
constexpr milliseconds kLong{5000};

std::string name_here(const char* test) {
  return fmt::format("zero.cpp-test-{}-{}", test, getpid());
}

TEST(UnixSocket, ConnectsByAnAbstractName) {
  const std::string name = name_here("connects");
  EXPECT_FALSE(UnixSocket::connect(name));
  auto listener = UnixSocket::listen(name);
  ASSERT_TRUE(listener);
  EXPECT_FALSE(UnixSocket::listen(name)) << "the name is taken";
  auto client = UnixSocket::connect(name);
  auto server = listener->accept(kLong);
  ASSERT_TRUE(client && server);
  EXPECT_EQ(server->peer_user(), geteuid());
  const std::uint64_t sent = 77;
  std::uint64_t received = 0;
  EXPECT_EQ(client->send(&sent, sizeof sent, -1, kLong), Result::kDone);
  EXPECT_EQ(server->receive(&received, sizeof received, nullptr, kLong), Result::kDone);
  EXPECT_EQ(received, 77u);
  *listener = UnixSocket();
  EXPECT_FALSE(UnixSocket::connect(name)) << "the name is free without its listener";
}

TEST(UnixSocket, ADescriptorTravelsWithARecord) {
  auto [a, b] = UnixSocket::pair();
  const FileDescriptor file = make_memory_file("test", 4096);
  const int sent = 5;
  int received = 0;
  EXPECT_EQ(a.send(&sent, sizeof sent, file.get(), kLong), Result::kDone);
  FileDescriptor other;
  EXPECT_EQ(b.receive(&received, sizeof received, &other, kLong), Result::kDone);
  ASSERT_GE(other.get(), 0);
  struct stat here {
  }, there{};
  fstat(file.get(), &here);
  fstat(other.get(), &there);
  EXPECT_EQ(here.st_ino, there.st_ino);
  EXPECT_NE(fcntl(other.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(UnixSocket, ClosesUnexpectedDescriptor) {
  auto [a, b] = UnixSocket::pair();
  const FileDescriptor file = make_memory_file("test", 4096);
  const int free_before = dup(0);
  close(free_before);
  const int sent = 5;
  int received = 0;
  a.send(&sent, sizeof sent, file.get(), kLong);
  EXPECT_EQ(b.receive(&received, sizeof received, nullptr, kLong), Result::kDone);
  const int free_after = dup(0);
  close(free_after);
  EXPECT_EQ(free_after, free_before);
}

// Sends `bytes` bytes and the same descriptor twice.
void send_two(const UnixSocket& socket, int fd, std::size_t bytes) {
  const int fds[2] = {fd, fd};
  char record[8] = {};
  iovec part{record, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  ASSERT_EQ(sendmsg(socket.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

// For any record of the peer.
TEST(UnixSocket, LeaksNoDescriptor) {
  auto [a, b] = UnixSocket::pair();
  const FileDescriptor file = make_memory_file("test", 4096);
  const int free_before = dup(0);
  close(free_before);
  int received = 0;
  for (const std::size_t bytes : {sizeof received, std::size_t{7}, std::size_t{0}}) {
    FileDescriptor first;
    send_two(a, file.get(), bytes);
    try {
      b.receive(&received, sizeof received, &first, kLong);
    } catch (const IoError&) {
      EXPECT_EQ(bytes, 7u) << "another size";
    }
    EXPECT_EQ(first.get(), free_before);
    const FileDescriptor second(dup(0));
    EXPECT_EQ(second.get(), free_before + 1) << "one descriptor a record, with " << bytes << " bytes";
  }
}

TEST(UnixSocket, NothingToReceiveIsAnAnswer) {
  auto [a, b] = UnixSocket::pair();
  int received = 0;
  EXPECT_EQ(b.receive(&received, sizeof received, nullptr, milliseconds(1)), Result::kWouldBlock);
}

TEST(UnixSocket, AFullSocketIsAnAnswer) {
  auto [a, b] = UnixSocket::pair();
  const char record[1000] = {};
  Result result = Result::kDone;
  for (int i = 0; i < 100000 && result == Result::kDone; ++i)
    result = a.send(record, sizeof record, -1, milliseconds(0));
  EXPECT_EQ(result, Result::kWouldBlock);
}

TEST(UnixSocket, GonePeerIsAnAnswer) {
  auto [a, b] = UnixSocket::pair();
  const int record = 1;
  a.send(&record, sizeof record, -1, kLong);
  // The peer's last record can still be read, although the peer did not read ours.
  b.send(&record, sizeof record, -1, kLong);
  a = UnixSocket();
  int received = 0;
  EXPECT_EQ(b.receive(&received, sizeof received, nullptr, kLong), Result::kDone);
  EXPECT_EQ(received, 1);
  EXPECT_EQ(b.receive(&received, sizeof received, nullptr, kLong), Result::kGone);
  EXPECT_EQ(b.send(&record, sizeof record, -1, kLong), Result::kGone);
}

TEST(UnixSocket, OtherRecordSizeIsAnError) {
  auto [a, b] = UnixSocket::pair();
  const char record[8] = {};
  int received = 0;
  a.send(record, 8, -1, kLong);
  EXPECT_THROW(b.receive(&received, sizeof received, nullptr, kLong), IoError);
  a.send(record, 2, -1, kLong);
  EXPECT_THROW(b.receive(&received, sizeof received, nullptr, kLong), IoError);
}

}  // namespace
}  // namespace zero
