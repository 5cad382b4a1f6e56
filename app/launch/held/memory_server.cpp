#include "app/launch/held/memory_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/epoll.h>

#include "zero/base/error/error.h"
#include "zero/base/files/random_bytes.h"

namespace zero {
namespace {

using Kind = MemoryRequest::Kind;
using AnswerKind = MemoryAnswer::Kind;
using Result = UnixSocket::Result;
constexpr std::chrono::milliseconds kAtOnce{0};
constexpr int kRequestsInTurn = 16;
constexpr int kMostRequestsOfTheDead = 1024;

MemoryAnswer with_text(AnswerKind kind, std::string_view text) {
  MemoryAnswer answer{.kind = kind};
  answer.text_bytes = static_cast<std::uint32_t>(std::min(text.size(), sizeof answer.text));
  std::memcpy(answer.text, text.data(), answer.text_bytes);
  return answer;
}

MemoryAnswer refused(std::string_view reason) {
  return with_text(AnswerKind::kRefused, reason);
}

MemoryAnswer done_unless(const std::string& reason) {
  return reason.empty() ? MemoryAnswer{} : refused(reason);
}

// Lists the names after `last`, as many as fit.
MemoryAnswer list(const MemoryFiles& kept, std::string_view prefix, std::string_view last) {
  MemoryAnswer answer;
  for (const std::string& name : kept.names(prefix)) {
    if (name <= last) continue;
    if (answer.text_bytes + name.size() + 1 > sizeof answer.text) {
      answer.kind = AnswerKind::kMore;
      break;
    }
    std::memcpy(answer.text + answer.text_bytes, name.c_str(), name.size() + 1);
    answer.text_bytes += static_cast<std::uint32_t>(name.size() + 1);
  }
  return answer;
}

}  // namespace

MemoryServer::MemoryServer(std::size_t most_names)
    : name_(random_name(16)), files_(most_names), events_(epoll_create1(EPOLL_CLOEXEC)) {
  if (events_.get() < 0) throw IoError("memory of the launcher", "epoll_create1", errno);
}

FileDescriptor MemoryServer::connect() {
  auto [ours, theirs] = UnixSocket::pair();
  FileDescriptor end(fcntl(theirs.get(), F_DUPFD_CLOEXEC, 3));
  if (end.get() < 0) throw IoError("memory of the launcher", "fcntl", errno);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = next_connection_}};
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, ours.get(), &event) != 0)
    throw IoError("memory of the launcher", "epoll_ctl", errno);
  connections_.emplace(next_connection_++, std::move(ours));
  return end;
}

void MemoryServer::serve() {
  std::array<epoll_event, 64> ready{};
  const int count = epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    for (int turn = 0; turn < kRequestsInTurn && serve_one(ready[static_cast<std::size_t>(i)].data.u64); ++turn) {
    }
  }
}

void MemoryServer::disconnect() {
  while (!connections_.empty()) {
    const std::uint64_t connection = connections_.begin()->first;
    // A process that the rank started may still send requests.
    for (int turn = 0; turn < kMostRequestsOfTheDead && serve_one(connection); ++turn) {
    }
    close(connection);
  }
}

void MemoryServer::close(std::uint64_t connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, found->second.get(), nullptr);
  connections_.erase(found);
}

bool MemoryServer::serve_one(std::uint64_t connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return false;
  MemoryRequest request;
  FileDescriptor file;
  try {
    const Result result = found->second.receive(&request, sizeof request, &file, kAtOnce);
    if (result == Result::kWouldBlock) return false;
    if (result == Result::kDone) {
      int attached = -1;
      MemoryAnswer answer = answer_to(request, std::move(file), attached);
      answer.number = request.number;
      const Result sent = found->second.send(&answer, sizeof answer, attached, kAtOnce);
      // kGone: the rank died after its request, and more requests may wait.
      if (sent == Result::kDone || sent == Result::kGone) return true;
    }
  } catch (const IoError&) {
    // No rank of zero.cpp sends a record of another size. The records after it cannot be interpreted.
  }
  close(connection);
  return false;
}

MemoryAnswer MemoryServer::answer_to(MemoryRequest& request, FileDescriptor file, int& attached) {
  if (request.version != MemoryRequest::kVersion) return refused("the launcher belongs to another version of zero.cpp");
  request.name[kLongestMemoryName] = request.other[kLongestMemoryName] = '\0';
  const std::string_view name = request.name, other = request.other;
  switch (request.kind) {
    case Kind::kPut:
      return done_unless(files_.put(name, std::move(file)));
    case Kind::kGet:
      attached = files_.find(name);
      return {.kind = attached < 0 ? AnswerKind::kNone : AnswerKind::kDone};
    case Kind::kList:
      return list(files_, name, other);
    case Kind::kRename:
      return done_unless(files_.rename(name, other));
    case Kind::kRemove:
      return done_unless(files_.remove(name));
    case Kind::kLauncher:
      return with_text(AnswerKind::kDone, {name_.c_str(), name_.size() + 1});
  }
  return refused("the launcher does not know that request");
}

}  // namespace zero
