#include "zero/comm/launcher/launcher_memory.h"

#include <cstring>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{10000};

// A launcher that gives every request the same kind of answer.
class OneAnswer {
 public:
  using Answer = std::function<void(const MemoryRequest&, UnixSocket& to)>;
  explicit OneAnswer(UnixSocket socket, Answer answer)
      : socket_(std::move(socket)), thread_([this, answer = std::move(answer)](const std::stop_token& stop) {
          MemoryRequest request;
          while (!stop.stop_requested()) {
            const auto result = socket_.receive(&request, sizeof request, nullptr, milliseconds(10));
            if (result == UnixSocket::Result::kGone) return;
            if (result == UnixSocket::Result::kDone) answer(request, socket_);
          }
        }) {}

 private:
  UnixSocket socket_;
  std::jthread thread_;
};

void send(UnixSocket& to, std::uint64_t number, MemoryAnswer::Kind kind, std::string_view text = "", int fd = -1) {
  MemoryAnswer answer{.number = number, .kind = kind, .text_bytes = static_cast<std::uint32_t>(text.size())};
  std::memcpy(answer.text, text.data(), text.size());
  to.send(&answer, sizeof answer, fd, kLong);
}

GetEnvironment only(const char* value) {
  return [value](const char* name) { return std::strcmp(name, "ZERO_LAUNCHER_MEMORY") == 0 ? value : nullptr; };
}

TEST(LauncherMemory, WithoutALauncherThereIsNone) {
  EXPECT_FALSE(LauncherMemory::of_environment(only(nullptr)));
  EXPECT_FALSE(LauncherMemory::of_environment(only("")));
}

TEST(LauncherMemory, RefusesVariableWithoutSocket) {
  const FileDescriptor file = make_memory_file("test", 10);
  const std::string number = std::to_string(file.get());
  for (const char* value : {"no", "-1", "7x", "999999", number.c_str()}) {
    EXPECT_TRUE(says(message_of<ConfigError>([&] { LauncherMemory::of_environment(only(value)); }),
                     fmt::format("ZERO_LAUNCHER_MEMORY = {}: ", value)));
  }
}

// After its first use the socket is no longer inherited. The same process may open it again.
TEST(LauncherMemory, SocketIsNotInherited) {
  auto [ours, theirs] = UnixSocket::pair();
  const FileDescriptor inherited(fcntl(theirs.get(), F_DUPFD, 3));
  theirs = UnixSocket();
  const std::string number = std::to_string(inherited.get());
  {
    const auto memory = LauncherMemory::of_environment(only(number.c_str()));
    EXPECT_TRUE(memory);
    EXPECT_EQ(fcntl(inherited.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  const OneAnswer launcher(std::move(ours), [](const MemoryRequest& request, UnixSocket& to) {
    send(to, request.number, MemoryAnswer::Kind::kNone);
  });
  auto again = LauncherMemory::of_environment(only(number.c_str()));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->get("something"));
}

TEST(LauncherMemory, RefusalCarriesItsReason) {
  auto [ours, theirs] = UnixSocket::pair();
  const OneAnswer launcher(std::move(ours), [](const MemoryRequest& request, UnixSocket& to) {
    send(to, request.number, MemoryAnswer::Kind::kRefused, "the house is full");
  });
  LauncherMemory memory(std::move(theirs), kLong);
  const FileDescriptor file = make_memory_file("test", 10);
  const std::string message = message_of<IoError>([&] { memory.put("a/name", file.get()); });
  EXPECT_TRUE(says(message, "the house is full"));
  EXPECT_TRUE(says(message, "a/name"));
}

TEST(LauncherMemory, GoneLauncherIsCommError) {
  auto [ours, theirs] = UnixSocket::pair();
  LauncherMemory memory(std::move(theirs), kLong);
  ours = UnixSocket();
  EXPECT_TRUE(says(message_of<CommError>([&] { memory.remove(""); }), "the launcher has ended"));
}

// The error appears at the timeout.
TEST(LauncherMemory, SilentLauncherIsCommError) {
  auto [ours, theirs] = UnixSocket::pair();
  LauncherMemory memory(std::move(theirs), milliseconds(20));
  EXPECT_TRUE(says(message_of<CommError>([&] { memory.get("x"); }),
                   "memory of the launcher: get 'x': the launcher did not answer within 20 ms"));
}

// A late answer is not taken for the answer to another request.
TEST(LauncherMemory, LateAnswerIsDropped) {
  auto [ours, theirs] = UnixSocket::pair();
  std::uint64_t first = 0;
  const OneAnswer launcher(std::move(ours), [&](const MemoryRequest& request, UnixSocket& to) {
    if (first == 0) {
      first = request.number;
      return;
    }
    send(to, first, MemoryAnswer::Kind::kRefused, "of the first");
    send(to, request.number, MemoryAnswer::Kind::kNone);
  });
  LauncherMemory memory(std::move(theirs), milliseconds(500));
  EXPECT_THROW(memory.get("first"), CommError);
  EXPECT_FALSE(memory.get("second"));
}

TEST(LauncherMemory, NamesComeInSeveralAnswers) {
  auto [ours, theirs] = UnixSocket::pair();
  const OneAnswer launcher(std::move(ours), [](const MemoryRequest& request, UnixSocket& to) {
    const std::string_view last = request.other;
    if (last.empty()) send(to, request.number, MemoryAnswer::Kind::kMore, std::string_view("a\0b\0", 4));
    if (last == "b") send(to, request.number, MemoryAnswer::Kind::kDone, std::string_view("c\0", 2));
  });
  LauncherMemory memory(std::move(theirs), kLong);
  EXPECT_EQ(memory.list(""), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(LauncherMemory, UnkeepableNameIsOurBug) {
  auto [ours, theirs] = UnixSocket::pair();
  LauncherMemory memory(std::move(theirs), kLong);
  EXPECT_THROW(memory.get("with space"), InternalError);
  EXPECT_THROW(memory.get(std::string(201, 'a')), InternalError);
  const FileDescriptor file = make_memory_file("test", 10);
  EXPECT_THROW(memory.put("", file.get()), InternalError);
}

}  // namespace
}  // namespace zero
