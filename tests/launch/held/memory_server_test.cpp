#include "app/launch/held/memory_server.h"

#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/launcher/launcher_memory.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Names = std::vector<std::string>;

// A launcher's loop in its own thread. Connect before it starts.
class Serving {
 public:
  explicit Serving(MemoryServer& server)
      : thread_([&server](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pollfd fd{server.fd(), POLLIN, 0};
            poll(&fd, 1, 5);
            server.serve();
          }
        }) {}

 private:
  std::jthread thread_;
};

LauncherMemory rank_of(MemoryServer& server) {
  return {UnixSocket(server.connect()), milliseconds(10000)};
}

FileDescriptor holding(std::string_view text) {
  FileDescriptor file = make_memory_file("test", text.size());
  EXPECT_EQ(pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return file;
}

void put(LauncherMemory& memory, std::string_view name, std::string_view text) {
  memory.put(name, holding(text).get());
}

std::string got(LauncherMemory& memory, std::string_view name) {
  const auto file = memory.get(name);
  return file ? read_memory_file(file->get(), 1000) : "nothing";
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(fds), end(fds)));
}

// Ranks of one launcher receive the same name. Ranks of another launcher receive another name.
TEST(MemoryServer, RanksLearnTheirLaunchersName) {
  MemoryServer one, other;
  LauncherMemory first = rank_of(one), second = rank_of(one), third = rank_of(other);
  const Serving serving(one), serving_other(other);
  EXPECT_EQ(first.launcher().size(), 32U);
  EXPECT_EQ(first.launcher(), second.launcher());
  EXPECT_NE(first.launcher(), third.launcher());
}

// Another rank finds the files.
TEST(MemoryServer, FilesOutliveTheirRank) {
  MemoryServer server;
  auto first = std::make_unique<LauncherMemory>(rank_of(server));
  LauncherMemory second = rank_of(server);
  const Serving serving(server);
  put(*first, "copy/a", "hello");
  first.reset();
  EXPECT_EQ(got(second, "copy/a"), "hello");
  EXPECT_EQ(got(second, "copy/b"), "nothing");
}

TEST(MemoryServer, BothSeeTheSameMemory) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const FileDescriptor file = holding("before");
  {
    const Serving serving(server);
    rank.put("flight/0", file.get());
  }
  ASSERT_EQ(pwrite(file.get(), "AFTER", 5, 0), 5);
  EXPECT_EQ(read_memory_file(server.files().find("flight/0"), 100), "AFTERe");
  EXPECT_EQ(read_memory_file(server.files().find("flight/0"), 3), "AFT");
  EXPECT_EQ(server.files().find("flight/1"), -1);
}

TEST(MemoryServer, TheSameNameAgainReplaces) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  const std::size_t before = open_descriptors();
  for (const char* text : {"one", "two", "three"}) put(rank, "x", text);
  EXPECT_EQ(got(rank, "x"), "three");
  EXPECT_EQ(open_descriptors(), before + 1);
}

TEST(MemoryServer, ListsInOrderWhatBeginsSo) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  for (const char* name : {"b/2", "a", "b/1", "b", "c"}) put(rank, name, "");
  EXPECT_EQ(rank.list("b"), (Names{"b", "b/1", "b/2"}));
  EXPECT_EQ(rank.list(""), (Names{"a", "b", "b/1", "b/2", "c"}));
  EXPECT_EQ(rank.list("d"), Names{});
  rank.remove("b/");
  EXPECT_EQ(rank.list(""), (Names{"a", "b", "c"}));
}

TEST(MemoryServer, LongListArrivesWhole) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  Names names;
  const FileDescriptor file = holding("x");
  for (int i = 0; i < 300; ++i) {
    names.push_back(fmt::format("{:0>200}", i));
    rank.put(names.back(), file.get());
  }
  EXPECT_EQ(rank.list(""), names);
}

TEST(MemoryServer, RenamingReplacesAllThatWasThere) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  put(rank, "new/a", "1");
  put(rank, "new/b", "2");
  put(rank, "old/a", "0");
  put(rank, "old/z", "0");
  put(rank, "other", "9");
  rank.rename("new/", "old/");
  EXPECT_EQ(rank.list(""), (Names{"old/a", "old/b", "other"}));
  EXPECT_EQ(got(rank, "old/a"), "1");
  EXPECT_EQ(got(rank, "old/b"), "2");
}

// A rename of no names is refused.
TEST(MemoryServer, EmptyRenameLosesNothing) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  put(rank, "old/a", "0");
  EXPECT_TRUE(says(message_of<IoError>([&] { rank.rename("new/", "old/"); }), "no name begins so"));
  put(rank, std::string(200, 'n'), "1");
  EXPECT_TRUE(says(message_of<IoError>([&] { rank.rename("n", "old/"); }), "203 bytes"));
  EXPECT_EQ(rank.list("").size(), 2u);
  EXPECT_EQ(got(rank, "old/a"), "0");
}

TEST(MemoryServer, RenamingIntoItselfKeepsAll) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  put(rank, "a/x", "1");
  put(rank, "a/old/x", "2");
  rank.rename("a/", "a/old/");
  EXPECT_EQ(rank.list(""), (Names{"a/old/old/x", "a/old/x"}));
  EXPECT_EQ(got(rank, "a/old/x"), "1");
  rank.rename("a/old/", "a/");
  EXPECT_EQ(rank.list(""), (Names{"a/old/x", "a/x"}));
  EXPECT_EQ(got(rank, "a/x"), "1");
}

// The error has the limit.
TEST(MemoryServer, RefusesMoreNamesThanAllowed) {
  MemoryServer server(2);
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  put(rank, "a", "");
  put(rank, "b", "");
  EXPECT_TRUE(says(message_of<IoError>([&] { put(rank, "c", ""); }), "2 names are kept already"));
  put(rank, "b", "replaced");
  rank.remove("a");
  put(rank, "c", "");
  EXPECT_EQ(rank.list(""), (Names{"b", "c"}));
}

TEST(MemoryServer, OnlyMemoryIsKept) {
  MemoryServer server;
  LauncherMemory rank = rank_of(server);
  const Serving serving(server);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]), writer(ends[1]);
  const FileDescriptor program = FileDescriptor::open("/proc/self/exe", O_RDONLY);
  for (const int fd : {writer.get(), program.get()})
    EXPECT_TRUE(says(message_of<IoError>([&] { rank.put("x", fd); }), "is no memory file"));
  EXPECT_EQ(rank.list(""), Names{});
}

// The rank sent its request before it died.
TEST(MemoryServer, ServesRequestsOfDeadRank) {
  MemoryServer server;
  MemoryRequest request{.kind = MemoryRequest::Kind::kPut};
  std::strcpy(request.name, "last");
  {
    UnixSocket end(server.connect());
    end.send(&request, sizeof request, holding("words").get(), milliseconds(1000));
  }
  server.disconnect();
  EXPECT_EQ(read_memory_file(server.files().find("last"), 100), "words");
}

TEST(MemoryServer, AnotherVersionIsToldSo) {
  MemoryServer server;
  UnixSocket end(server.connect());
  const MemoryRequest request{.version = 1, .number = 5};
  end.send(&request, sizeof request, -1, milliseconds(1000));
  server.serve();
  MemoryAnswer answer;
  ASSERT_EQ(end.receive(&answer, sizeof answer, nullptr, milliseconds(1000)), UnixSocket::Result::kDone);
  EXPECT_EQ(answer.number, 5u);
  EXPECT_TRUE(says(std::string_view(answer.text, answer.text_bytes), "another version"));
}

TEST(MemoryServer, SilentReaderDelaysNobody) {
  MemoryServer server;
  UnixSocket deaf(server.connect());
  LauncherMemory rank = rank_of(server);
  const MemoryRequest request{.kind = MemoryRequest::Kind::kList};
  for (int i = 0; i < 10'000; ++i) {
    if (deaf.send(&request, sizeof request, -1, milliseconds(0)) == UnixSocket::Result::kGone) break;
    server.serve();
  }
  EXPECT_EQ(deaf.send(&request, sizeof request, -1, milliseconds(0)), UnixSocket::Result::kGone);
  const Serving serving(server);
  put(rank, "a", "served");
  EXPECT_EQ(got(rank, "a"), "served");
}

// Sends records of any size, valid requests with random contents, and several descriptors of any kind.
class Hostile {
 public:
  explicit Hostile(unsigned seed) : random_(seed) {
    int ends[2];
    if (pipe(ends) == 0) kinds_.emplace_back(ends[0]), kinds_.emplace_back(ends[1]);
    kinds_.push_back(make_memory_file("hostile", 100));
    kinds_.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
    kinds_.push_back(FileDescriptor::open("/dev/null", O_RDWR));
  }

  void send(int socket) {
    std::vector<char> bytes(random_() % 3 == 0 ? random_() % 5000 : sizeof(MemoryRequest));
    for (char& byte : bytes) byte = static_cast<char>(random_());
    if (random_() % 2 == 0 && bytes.size() >= sizeof(MemoryRequest)) {
      MemoryRequest request{.kind = static_cast<MemoryRequest::Kind>(random_() % 7), .number = random_()};
      fill(request.name);
      fill(request.other);
      std::memcpy(bytes.data(), &request, sizeof request);
    }
    iovec part{bytes.data(), bytes.size()};
    constexpr std::size_t kMost = 5;
    alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))] = {};
    msghdr message{.msg_iov = &part, .msg_iovlen = 1};
    const std::size_t count = random_() % (kMost + 1);
    if (count > 0) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(count * sizeof(int));
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(count * sizeof(int));
      for (std::size_t i = 0; i < count; ++i) {
        const int fd = random_() % 6 == 0 ? socket : kinds_[random_() % kinds_.size()].get();
        std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
      }
    }
    sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    char sink[sizeof(MemoryAnswer)];
    while (recv(socket, sink, sizeof sink, MSG_DONTWAIT) > 0) {
    }
  }

 private:
  // Half of the names are valid, so the server also keeps something. Some have no end.
  void fill(char (&name)[kLongestMemoryName + 1]) {
    const bool valid = random_() % 2 == 0;
    const std::size_t bytes = random_() % (sizeof name + 1);
    for (std::size_t i = 0; i < bytes; ++i) name[i] = valid ? "ab/"[random_() % 3] : static_cast<char>(random_());
  }

  std::mt19937 random_;
  std::vector<FileDescriptor> kinds_;
};

TEST(MemoryServer, NonsenseHurtsNobodyElse) {
  MemoryServer server(50);
  LauncherMemory rank = rank_of(server);
  Hostile hostile(1);
  std::size_t before = 0;
  {
    const Serving serving(server);
    put(rank, "honest", "kept");
    before = open_descriptors();
  }
  int closed = 0;
  UnixSocket end(server.connect());
  for (int round = 0; round < 20'000; ++round) {
    hostile.send(end.get());
    server.serve();
    pollfd hung_up{end.get(), POLLIN, 0};
    if (poll(&hung_up, 1, 0) > 0 && (hung_up.revents & POLLHUP) != 0) {
      ++closed;
      end = UnixSocket(server.connect());
    }
    ASSERT_LE(server.files().size(), 50u);
  }
  EXPECT_GT(closed, 100) << "records of a wrong size end a connection";
  for (const std::string& name : server.files().names()) {
    EXPECT_TRUE(is_memory_prefix(name)) << name;
    EXPECT_GE(fcntl(server.files().find(name), F_GET_SEALS), 0);
  }
  end = UnixSocket();
  const Serving serving(server);
  rank.remove("");  // any rank may do that
  put(rank, "honest", "kept");
  EXPECT_EQ(got(rank, "honest"), "kept");
  EXPECT_LE(open_descriptors(), before) << "received descriptors are closed";
}

}  // namespace
}  // namespace zero
