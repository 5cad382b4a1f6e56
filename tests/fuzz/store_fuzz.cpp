// Any bytes from the network while gloo's ranks meet. They are messages, a stranger's messages to rank 0, and answers
// of a stranger in place of rank 0. No stranger is accepted, and parsed messages equal the sent ones.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include "zero/base/files/file.h"
#include "zero/comm/rendezvous/store_session.h"

namespace {

using namespace zero::meeting;
using Bytes = std::span<const char>;
using End = Parsed::End;

constexpr std::size_t kPrefixBytes = 12;
const std::string kSecret = rendezvous_secret("a token that no input knows", "run");

void require(bool holds) {
  if (!holds) std::abort();
}

void check_messages(Bytes bytes, Caps caps) {
  while (true) {
    Message message;
    const Parsed parsed = parse_message(bytes, caps, message);
    if (parsed.end == End::kTooLarge) return;
    require(parsed.bytes >= kPrefixBytes && parsed.bytes <= kPrefixBytes + caps.key_bytes + caps.value_bytes);
    require((parsed.bytes <= bytes.size()) == (parsed.end == End::kWhole));
    if (parsed.end == End::kPart) return;
    require(std::ranges::equal(to_bytes(message), bytes.first(parsed.bytes)));
    require(parse_message(bytes.first(parsed.bytes - 1), caps, message).end == End::kPart);
    bytes = bytes.subspan(parsed.bytes);
  }
}

void check_session(Bytes bytes) {
  StoreSession session;
  Message message;
  for (bool goes_on = true; goes_on;) {
    const Parsed parsed = parse_message(bytes, session.caps(), message);
    if (parsed.end != End::kWhole) return;
    bytes = bytes.subspan(parsed.bytes);
    const StoreSession::Answer answer = session.take(message, "run", kSecret);
    require(!session.proved());
    Message sent;
    require(answer.bytes.empty() || parse_message(answer.bytes, kBeforeProof, sent).bytes == answer.bytes.size());
    goes_on = answer.goes_on;
  }
}

void check_client(Bytes bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const zero::FileDescriptor client(ends[0]), stranger(ends[1]);
  (void)send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(stranger.get(), SHUT_WR);
  require(greet_server(client.get(), "run", kSecret, std::chrono::milliseconds(0)).end != Greeting::End::kIn);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const char*>(data), size);
  check_messages(bytes, kBeforeProof);
  check_messages(bytes, kAfterProof);
  check_session(bytes);
  check_client(bytes);
  return 0;
}
