#include "zero/comm/launcher/launcher_memory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/random_bytes.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kVariable = "ZERO_LAUNCHER_MEMORY";

const char* verb(MemoryRequest::Kind kind) {
  switch (kind) {
    case MemoryRequest::Kind::kPut:
      return "put";
    case MemoryRequest::Kind::kGet:
      return "get";
    case MemoryRequest::Kind::kList:
      return "list";
    case MemoryRequest::Kind::kRename:
      return "rename";
    case MemoryRequest::Kind::kRemove:
      return "remove";
    case MemoryRequest::Kind::kLauncher:
      return "ask for the name of";
  }
  return "?";
}

int socket_option(int fd, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

void copy(std::string_view text, char (&into)[kLongestMemoryName + 1]) {
  ZERO_CHECK(is_memory_prefix(text), "'{}' is not a name that the launcher can keep", text);
  std::memcpy(into, text.data(), text.size());
}

}  // namespace

std::optional<LauncherMemory> LauncherMemory::of_environment(const GetEnvironment& environment, milliseconds timeout) {
  const char* value = environment(kVariable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  const auto refuse = [&](const std::string& reason) {
    throw ConfigError(kVariable, value, reason, "unset it, or let `zero launch` set it");
  };
  const std::string_view text = value;
  int fd = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size() || fd < 0) refuse("is not the number of a descriptor");
  if (socket_option(fd, SO_DOMAIN) != AF_UNIX || socket_option(fd, SO_TYPE) != SOCK_SEQPACKET)
    refuse("is not a socket to a launcher");
  // A duplicate, so a later call finds the descriptor as this call did.
  FileDescriptor mine(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (mine.get() < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) throw IoError(kVariable, "fcntl", errno);
  return LauncherMemory(UnixSocket(std::move(mine)), timeout);
}

// Numbers begin at a random one, so a late answer to an earlier user of the same socket is not taken for ours.
LauncherMemory::LauncherMemory(UnixSocket socket, milliseconds timeout)
    : socket_(std::move(socket)), timeout_(timeout), next_number_((random_number() << 32) + 1) {}

MemoryAnswer LauncherMemory::ask(MemoryRequest::Kind kind, std::string_view name, std::string_view other, int fd,
                                 FileDescriptor* answered) {
  MemoryRequest request{.kind = kind, .number = next_number_++};
  copy(name, request.name);
  copy(other, request.other);
  const std::string operation = fmt::format("memory of the launcher: {} '{}'", verb(kind), name);
  const auto fail = [&](UnixSocket::Result result) {
    throw CommError(-1, operation,
                    result == UnixSocket::Result::kGone
                        ? "the launcher has ended"
                        : fmt::format("the launcher did not answer within {} ms", timeout_.count()));
  };
  const auto deadline = Clock::now() + timeout_;
  const auto sent = socket_.send(&request, sizeof request, fd, timeout_);
  if (sent != UnixSocket::Result::kDone) fail(sent);
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    MemoryAnswer answer;
    FileDescriptor received;
    const auto result = socket_.receive(&answer, sizeof answer, &received, std::max(left, milliseconds(0)));
    if (result == UnixSocket::Result::kGone) fail(result);
    if (result == UnixSocket::Result::kWouldBlock && Clock::now() >= deadline) fail(result);
    if (result != UnixSocket::Result::kDone || answer.number != request.number) continue;
    ZERO_CHECK(answer.text_bytes <= sizeof answer.text, "an answer of {} bytes", answer.text_bytes);
    if (answer.kind == MemoryAnswer::Kind::kRefused) {
      throw IoError(fmt::format("the launcher's '{}'", name), fmt::format("{}", verb(kind)), 0,
                    std::string_view(answer.text, answer.text_bytes));
    }
    if (answered != nullptr) *answered = std::move(received);
    return answer;
  }
}

void LauncherMemory::put(std::string_view name, int fd) {
  ZERO_CHECK(!name.empty() && fd >= 0, "nothing to keep as '{}'", name);
  ask(MemoryRequest::Kind::kPut, name, "", fd);
}

std::optional<FileDescriptor> LauncherMemory::get(std::string_view name) {
  FileDescriptor found;
  if (ask(MemoryRequest::Kind::kGet, name, "", -1, &found).kind == MemoryAnswer::Kind::kNone) return std::nullopt;
  // The system drops a sent descriptor if this process may not open another.
  if (found.get() < 0) throw IoError(fmt::format("the launcher's '{}'", name), "get", EMFILE);
  return found;
}

std::vector<std::string> LauncherMemory::list(std::string_view prefix) {
  std::vector<std::string> names;
  while (true) {
    const MemoryAnswer answer = ask(MemoryRequest::Kind::kList, prefix, names.empty() ? "" : names.back(), -1);
    for (std::string_view text(answer.text, answer.text_bytes); !text.empty();) {
      const std::string_view name = text.substr(0, text.find('\0'));
      names.emplace_back(name);
      text.remove_prefix(std::min(name.size() + 1, text.size()));
    }
    if (answer.kind != MemoryAnswer::Kind::kMore) return names;
    ZERO_CHECK(answer.text_bytes > 0, "more names are announced, and none follows");
  }
}

void LauncherMemory::rename(std::string_view from, std::string_view to) {
  ask(MemoryRequest::Kind::kRename, from, to, -1);
}

void LauncherMemory::remove(std::string_view prefix) {
  ask(MemoryRequest::Kind::kRemove, prefix, "", -1);
}

std::string LauncherMemory::launcher() {
  const MemoryAnswer answer = ask(MemoryRequest::Kind::kLauncher, "", "", -1);
  const std::string_view name(answer.text, answer.text_bytes);
  return std::string(name.substr(0, name.find('\0')));
}

}  // namespace zero
