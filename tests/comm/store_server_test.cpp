#include "../../zero/comm/plugins/gloo/store_server.h"

#include <cstring>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/base/file.h"

namespace zero_gloo {
namespace {

using std::chrono::milliseconds;
using zero::FileDescriptor;

constexpr milliseconds kLong{5000};

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int free_port() {
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof address;
  bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.sin_port);
}

FileDescriptor connect_to(int port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

FileDescriptor greet(int port, const std::string& run_id) {
  FileDescriptor fd = connect_to(port);
  write_message(fd.get(), {.operation = Operation::kHello, .key = run_id});
  return fd;
}

std::vector<char> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

TEST(StoreServer, AGetWaitsForTheSet) {
  const int port = free_port();
  const StoreServer server(port, "run", 2, kLong);
  const FileDescriptor a = greet(port, "run"), b = greet(port, "run");
  Message answer;
  EXPECT_EQ(read_message(a.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.key, "run");
  EXPECT_EQ(read_message(b.get(), answer, kLong), Read::kDone);
  EXPECT_TRUE(write_message(a.get(), {.operation = Operation::kGet, .key = "1"}));
  EXPECT_EQ(read_message(a.get(), answer, milliseconds(30)), Read::kLate);
  EXPECT_TRUE(write_message(b.get(), {.operation = Operation::kSet, .key = "1", .value = bytes_of("address")}));
  EXPECT_EQ(read_message(a.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.value, bytes_of("address"));
}

TEST(StoreServer, AnEmptyValueIsAValue) {
  const int port = free_port();
  const StoreServer server(port, "run", 1, kLong);
  const FileDescriptor a = greet(port, "run");
  Message answer;
  EXPECT_EQ(read_message(a.get(), answer, kLong), Read::kDone);
  write_message(a.get(), {.operation = Operation::kSet, .key = "k"});
  write_message(a.get(), {.operation = Operation::kGet, .key = "k"});
  EXPECT_EQ(read_message(a.get(), answer, kLong), Read::kDone);
  EXPECT_TRUE(answer.value.empty());
}

TEST(StoreServer, AnotherRunIsToldWhoseThisIsAndDropped) {
  const int port = free_port();
  const StoreServer server(port, "ours", 1, kLong);
  const FileDescriptor ours = greet(port, "ours");
  const FileDescriptor theirs = greet(port, "theirs");
  Message answer;
  EXPECT_EQ(read_message(theirs.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.key, "ours");
  EXPECT_EQ(read_message(theirs.get(), answer, kLong), Read::kClosed);
}

TEST(StoreServer, WhoeverDoesNotGreetGetsNothing) {
  const int port = free_port();
  const StoreServer server(port, "run", 1, kLong);
  const FileDescriptor ours = greet(port, "run");
  const FileDescriptor stranger = connect_to(port);
  write_message(stranger.get(), {.operation = Operation::kSet, .key = "1", .value = bytes_of("evil")});
  Message answer;
  EXPECT_EQ(read_message(stranger.get(), answer, kLong), Read::kClosed);
  const FileDescriptor noise = connect_to(port);
  const std::string http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(send(noise.get(), http.data(), http.size(), MSG_NOSIGNAL), static_cast<ssize_t>(http.size()));
  EXPECT_EQ(read_message(noise.get(), answer, kLong), Read::kClosed);
}

TEST(StoreServer, ATakenPortIsTheUsersToPutRight) {
  const int port = free_port();
  const StoreServer server(port, "run", 0, kLong);
  try {
    const StoreServer second(port, "run", 0, kLong);
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_TRUE(error.configuration);
    EXPECT_NE(std::string(error.what()).find(std::to_string(port)), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("set MASTER_PORT"), std::string::npos);
  }
}

TEST(StoreServer, EndsAtItsTimeoutWhenAClientNeverComes) {
  const auto begin = std::chrono::steady_clock::now();
  { const StoreServer server(free_port(), "run", 1, milliseconds(150)); }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(149));
}

TEST(StoreServer, PortZeroIsAnyFreePort) {
  const StoreServer a(0, "a", 1, kLong), b(0, "b", 1, kLong);
  ASSERT_NE(a.port(), b.port());
  const FileDescriptor client_a = greet(a.port(), "a"), client_b = greet(b.port(), "b");
  Message answer;
  EXPECT_EQ(read_message(client_a.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.key, "a");
}

TEST(StoreServer, AbandonedItWaitsForNobody) {
  StoreServer server(0, "run", 1, std::chrono::hours(1));
  const FileDescriptor client = greet(server.port(), "run");
  server.abandon();  // and the destructor returns
}

TEST(StoreMessages, AMessageTooLargeIsNotRead) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor a(ends[0]), b(ends[1]);
  const std::uint32_t prefix[3] = {1, 0xffffffff, 0xffffffff};
  EXPECT_EQ(write(a.get(), prefix, sizeof prefix), static_cast<ssize_t>(sizeof prefix));
  Message message;
  EXPECT_EQ(read_message(b.get(), message, kLong), Read::kClosed);
}

TEST(StoreMessages, HalfAMessageIsLateOrClosed) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  FileDescriptor a(ends[0]);
  const FileDescriptor b(ends[1]);
  const std::uint32_t prefix[3] = {1, 4, 0};
  EXPECT_EQ(write(a.get(), prefix, sizeof prefix), static_cast<ssize_t>(sizeof prefix));
  Message message;
  EXPECT_EQ(read_message(b.get(), message, milliseconds(20)), Read::kLate);
  a = FileDescriptor();
  EXPECT_EQ(read_message(b.get(), message, kLong), Read::kClosed);
  EXPECT_FALSE(write_message(b.get(), {.operation = Operation::kHello, .key = "x"}));
}

}  // namespace
}  // namespace zero_gloo
