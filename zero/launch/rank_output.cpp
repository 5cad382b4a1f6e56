#include "zero/launch/rank_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <poll.h>
#include <unistd.h>

namespace zero {
namespace {

// Long enough for ranks that fail alike to say so together, short enough not to be noticed.
constexpr std::chrono::milliseconds kMergeWindow{150};

}  // namespace

RankOutput::RankOutput(std::vector<int> ranks, std::vector<bool> shown)
    : errors_(static_cast<int>(std::count(shown.begin(), shown.end(), true)), kMergeWindow) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Rank rank;
    rank.number = ranks[i];
    rank.shown = shown[i];
    ranks_.push_back(std::move(rank));
  }
}

bool RankOutput::read_from(std::size_t index, Stream stream, int fd, Time now) {
  Rank& rank = ranks_[index];
  LineSplitter& splitter = stream == Stream::kOutput ? rank.output : rank.errors;
  std::array<char, 1 << 16> bytes;
  std::vector<std::string> lines;
  bool open = true;
  while (true) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      if (auto rest = splitter.rest()) lines.push_back(std::move(*rest));
      open = false;
      break;
    }
    splitter.feed({bytes.data(), static_cast<std::size_t>(got)}, lines);
    if (static_cast<std::size_t>(got) < bytes.size()) break;  // fair to the other ranks
  }
  for (auto& line : lines) show(rank, stream, std::move(line), now);
  return open;
}

void RankOutput::show(Rank& rank, Stream stream, std::string line, Time now) {
  rank.last.push_back(line);
  if (rank.last.size() > kLastLines) rank.last.pop_front();
  if (!rank.shown) return;
  if (ranks_.size() == 1) {
    write(stream == Stream::kOutput ? STDOUT_FILENO : STDERR_FILENO, line + "\n");
  } else if (stream == Stream::kErrors) {
    errors_.add(rank.number, std::move(line), now);
  } else {
    const std::array<int, 1> number{rank.number};
    write(STDOUT_FILENO, (rank.number == 0 ? "" : rank_prefix(number)) + line + "\n");
  }
}

void RankOutput::flush(Time now) {
  for (const auto& line : errors_.take(now)) write(STDERR_FILENO, line + "\n");
}

void RankOutput::flush_all() {
  for (const auto& line : errors_.take_all()) write(STDERR_FILENO, line + "\n");
}

void RankOutput::write(int fd, const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};  // somebody made our output non-blocking
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      if (fd == STDOUT_FILENO && errno == EPIPE) reader_gone_ = true;
      return;  // nobody reads: the ranks' fate does not hang on it
    }
  }
}

}  // namespace zero
