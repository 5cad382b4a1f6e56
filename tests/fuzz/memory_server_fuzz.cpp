// Any requests of a rank to the launcher that keeps memory for it. Each is answered, or the connection is closed. Names
// stay valid and within their limit. A request begins with four bytes: its flags, its kind, and the lengths of two
// names.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>

#include "app/launch/held/memory_server.h"

namespace {

using namespace zero;
using Bytes = std::span<const std::uint8_t>;
using Result = UnixSocket::Result;

constexpr std::size_t kMostNames = 6;
constexpr std::chrono::milliseconds kAtOnce{0}, kSoon{5000};

void require(bool holds) {
  if (!holds) std::abort();
}

enum Flag : std::uint8_t { kMemory = 1, kNoMemory = 2, kShort = 4, kOtherVersion = 8, kLater = 16 };

struct Asked {
  std::uint8_t flags = 0;
  MemoryRequest request;
};

// Takes the rest of `bytes` if they are shorter than `length`.
void take_name(Bytes& bytes, std::size_t length, char (&into)[kLongestMemoryName + 1]) {
  length = std::min({length, bytes.size(), sizeof into});
  std::copy_n(bytes.begin(), length, into);
  bytes = bytes.subspan(length);
}

Asked take(Bytes& bytes, std::uint64_t number) {
  Asked asked{.flags = bytes[0], .request = {.number = number}};
  asked.request.kind = static_cast<MemoryRequest::Kind>(bytes[1]);
  if ((asked.flags & kOtherVersion) != 0) asked.request.version ^= bytes[1];
  const std::size_t name = bytes[2], other = bytes[3];
  bytes = bytes.subspan(4);
  take_name(bytes, name, asked.request.name);
  take_name(bytes, other, asked.request.other);
  return asked;
}

int descriptor_of(std::uint8_t flags) {
  static const FileDescriptor memory(memfd_create("fuzz", MFD_CLOEXEC)), nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if ((flags & kMemory) != 0) return memory.get();
  return (flags & kNoMemory) != 0 ? nothing.get() : -1;
}

void check_kept(const MemoryFiles& kept) {
  const auto names = kept.names();
  require(names.size() == kept.size() && names.size() <= kMostNames);
  for (const std::string& name : names) require(!name.empty() && is_memory_prefix(name) && kept.find(name) >= 0);
}

void check_answers(UnixSocket& rank, std::uint64_t& answered, std::uint64_t asked) {
  while (answered < asked) {
    MemoryAnswer answer;
    FileDescriptor file;
    require(rank.receive(&answer, sizeof answer, &file, kAtOnce) == Result::kDone);
    require(answer.number == ++answered && answer.text_bytes <= sizeof answer.text);
    require(answer.kind == MemoryAnswer::Kind::kRefused || answer.text_bytes == 0 ||
            answer.text[answer.text_bytes - 1] == '\0');
    require(answer.kind != MemoryAnswer::Kind::kMore || answer.text_bytes > 0);
  }
}

bool hung_up(UnixSocket& rank, std::chrono::milliseconds wait) {
  MemoryAnswer answer;
  return rank.receive(&answer, sizeof answer, nullptr, wait) == Result::kGone;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MemoryServer server(kMostNames);
  UnixSocket rank(server.connect());
  std::uint64_t asked = 0, answered = 0;
  for (Bytes bytes(data, size); bytes.size() >= 4;) {
    const Asked next = take(bytes, asked + 1);
    const bool cut = (next.flags & kShort) != 0;
    const std::size_t sent = cut ? bytes.size() % sizeof next.request : sizeof next.request;
    if (rank.send(&next.request, sent, descriptor_of(next.flags), kAtOnce) != Result::kDone) break;
    asked += cut ? 0 : 1;
    if ((next.flags & kLater) != 0 && asked - answered < 8 && !cut) continue;
    server.serve();
    check_kept(server.files());
    check_answers(rank, answered, asked);
    // The connection may close later if somebody reads this process's descriptors at that moment (/proc), because that
    // holds them open.
    require(hung_up(rank, cut ? kSoon : kAtOnce) == cut);
    if (cut) rank = UnixSocket(server.connect());
  }
  server.disconnect();
  check_kept(server.files());
  return 0;
}
