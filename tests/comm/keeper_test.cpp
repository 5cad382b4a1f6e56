#include "zero/comm/keeper.h"

#include <cstring>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/comm/windows.h"

#include "../message_of.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{10000};

// A launcher that gives the same kind of answer to everything.
class OneAnswer {
 public:
  using Answer = std::function<void(const KeeperRequest&, UnixSocket& to)>;
  explicit OneAnswer(UnixSocket socket, Answer answer)
      : socket_(std::move(socket)), thread_([this, answer = std::move(answer)](const std::stop_token& stop) {
          KeeperRequest request;
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

void send(UnixSocket& to, std::uint64_t number, KeeperAnswer::Kind kind, std::string_view text = "", int fd = -1) {
  KeeperAnswer answer{.number = number, .kind = kind, .text_bytes = static_cast<std::uint32_t>(text.size())};
  std::memcpy(answer.text, text.data(), text.size());
  to.send(&answer, sizeof answer, fd, kLong);
}

GetEnvironment only(const char* value) {
  return [value](const char* name) { return std::strcmp(name, "ZERO_KEEPER") == 0 ? value : nullptr; };
}

TEST(Keeper, WithoutALauncherThereIsNone) {
  EXPECT_FALSE(Keeper::of_environment(only(nullptr)));
  EXPECT_FALSE(Keeper::of_environment(only("")));
}

TEST(Keeper, AVariableThatIsNoSocketIsRefused) {
  const FileDescriptor file = make_memory_file("test", 10);
  const std::string number = std::to_string(file.get());
  for (const char* value : {"no", "-1", "7x", "999999", number.c_str()}) {
    EXPECT_TRUE(says(message_of<ConfigError>([&] { Keeper::of_environment(only(value)); }),
                     fmt::format("ZERO_KEEPER = {}: ", value)));
  }
}

TEST(Keeper, TheSocketIsNotInheritedOnceItIsUsedAndMayBeAskedForAgain) {
  auto [ours, theirs] = UnixSocket::pair();
  const FileDescriptor inherited(fcntl(theirs.get(), F_DUPFD, 3));
  theirs = UnixSocket();
  const std::string number = std::to_string(inherited.get());
  {
    const auto keeper = Keeper::of_environment(only(number.c_str()));
    EXPECT_TRUE(keeper);
    EXPECT_EQ(fcntl(inherited.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  const OneAnswer launcher(std::move(ours), [](const KeeperRequest& request, UnixSocket& to) {
    send(to, request.number, KeeperAnswer::Kind::kNone);
  });
  auto again = Keeper::of_environment(only(number.c_str()));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->get("something"));
}

TEST(Keeper, ARefusalIsGivenAsItsReason) {
  auto [ours, theirs] = UnixSocket::pair();
  const OneAnswer launcher(std::move(ours), [](const KeeperRequest& request, UnixSocket& to) {
    send(to, request.number, KeeperAnswer::Kind::kRefused, "the house is full");
  });
  Keeper keeper(std::move(theirs), kLong);
  const FileDescriptor file = make_memory_file("test", 10);
  const std::string message = message_of<IoError>([&] { keeper.put("a/name", file.get()); });
  EXPECT_TRUE(says(message, "the house is full"));
  EXPECT_TRUE(says(message, "a/name"));
}

TEST(Keeper, ALauncherThatIsGoneIsACommError) {
  auto [ours, theirs] = UnixSocket::pair();
  Keeper keeper(std::move(theirs), kLong);
  ours = UnixSocket();
  EXPECT_TRUE(says(message_of<CommError>([&] { keeper.remove(""); }), "the launcher is gone"));
}

TEST(Keeper, ALauncherThatDoesNotAnswerIsACommErrorAtTheTimeout) {
  auto [ours, theirs] = UnixSocket::pair();
  Keeper keeper(std::move(theirs), milliseconds(20));
  EXPECT_TRUE(says(message_of<CommError>([&] { keeper.get("x"); }),
                   "keeper: get 'x': the launcher did not answer within 20 ms"));
}

TEST(Keeper, AnAnswerThatComesTooLateIsNotTakenForAnother) {
  auto [ours, theirs] = UnixSocket::pair();
  std::uint64_t first = 0;
  const OneAnswer launcher(std::move(ours), [&](const KeeperRequest& request, UnixSocket& to) {
    if (first == 0) {
      first = request.number;
      return;
    }
    send(to, first, KeeperAnswer::Kind::kRefused, "of the first");
    send(to, request.number, KeeperAnswer::Kind::kNone);
  });
  Keeper keeper(std::move(theirs), milliseconds(500));
  EXPECT_THROW(keeper.get("first"), CommError);
  EXPECT_FALSE(keeper.get("second"));
}

TEST(Keeper, NamesComeInSeveralAnswers) {
  auto [ours, theirs] = UnixSocket::pair();
  const OneAnswer launcher(std::move(ours), [](const KeeperRequest& request, UnixSocket& to) {
    const std::string_view last = request.other;
    if (last.empty()) send(to, request.number, KeeperAnswer::Kind::kMore, std::string_view("a\0b\0", 4));
    if (last == "b") send(to, request.number, KeeperAnswer::Kind::kDone, std::string_view("c\0", 2));
  });
  Keeper keeper(std::move(theirs), kLong);
  EXPECT_EQ(keeper.list(""), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Keeper, ANameThatNobodyCouldKeepIsOurBug) {
  auto [ours, theirs] = UnixSocket::pair();
  Keeper keeper(std::move(theirs), kLong);
  EXPECT_THROW(keeper.get("with space"), InternalError);
  EXPECT_THROW(keeper.get(std::string(201, 'a')), InternalError);
  const FileDescriptor file = make_memory_file("test", 10);
  EXPECT_THROW(keeper.put("", file.get()), InternalError);
}

}  // namespace
}  // namespace zero
