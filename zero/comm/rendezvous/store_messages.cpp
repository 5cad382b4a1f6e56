#include "zero/comm/rendezvous/store_messages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace zero::meeting {
namespace {

using Clock = std::chrono::steady_clock;

struct Prefix {
  std::uint32_t operation, key_bytes, value_bytes;
};
// Memory grows with the received bytes, not with the announced ones.
constexpr std::size_t kPiece = std::size_t{64} << 10;

bool write_all(int socket, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Parsed parse_message(std::span<const char> bytes, Caps caps, Message& message) {
  Prefix prefix{};
  if (bytes.size() < sizeof prefix) return {Parsed::End::kPart, sizeof prefix};
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  if (prefix.key_bytes > caps.key_bytes || prefix.value_bytes > caps.value_bytes)
    return {Parsed::End::kTooLarge, sizeof prefix};
  const std::size_t whole = sizeof prefix + std::size_t{prefix.key_bytes} + prefix.value_bytes;
  if (bytes.size() < whole) return {Parsed::End::kPart, whole};
  const auto key = bytes.subspan(sizeof prefix, prefix.key_bytes);
  const auto value = bytes.subspan(sizeof prefix + prefix.key_bytes, prefix.value_bytes);
  message = {static_cast<Operation>(prefix.operation), std::string(key.begin(), key.end()),
             std::vector<char>(value.begin(), value.end())};
  return {Parsed::End::kWhole, whole};
}

std::vector<char> to_bytes(const Message& message) {
  const Prefix prefix{static_cast<std::uint32_t>(message.operation), static_cast<std::uint32_t>(message.key.size()),
                      static_cast<std::uint32_t>(message.value.size())};
  std::vector<char> bytes(sizeof prefix + message.key.size() + message.value.size());
  std::memcpy(bytes.data(), &prefix, sizeof prefix);
  std::ranges::copy(message.key, bytes.begin() + sizeof prefix);
  std::ranges::copy(message.value, bytes.end() - std::ssize(message.value));
  return bytes;
}

bool write_message(int socket, const Message& message) {
  return write_all(socket, to_bytes(message));
}

Read read_message(int socket, Message& message, std::chrono::milliseconds limit, Caps caps) {
  const auto deadline = Clock::now() + limit;
  MessageReader reader;
  while (true) {
    if (const Read read = reader.read(socket, message, caps); read != Read::kLate) return read;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poll{.fd = socket, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (ready == 0 && left <= 0) return Read::kLate;
    if (ready < 0 && errno != EINTR) return Read::kClosed;
  }
}

Read MessageReader::read(int socket, Message& message, Caps caps) {
  while (true) {
    const Parsed parsed = parse_message(bytes_, caps, message);
    if (parsed.end == Parsed::End::kTooLarge) return Read::kClosed;
    if (parsed.end == Parsed::End::kWhole) {
      bytes_.clear();
      return Read::kDone;
    }
    const std::size_t before = bytes_.size();
    bytes_.resize(std::min(parsed.bytes, before + kPiece));
    const ssize_t got = recv(socket, bytes_.data() + before, bytes_.size() - before, MSG_DONTWAIT);
    bytes_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Read::kLate : Read::kClosed;
  }
}

}  // namespace zero::meeting
