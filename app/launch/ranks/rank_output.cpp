#include "app/launch/ranks/rank_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "zero/base/error/log.h"

namespace zero {
namespace {

// Long enough to merge equal lines of ranks that fail alike, and too short for a user to notice.
constexpr std::chrono::milliseconds kMergePatience{150};

}  // namespace

RankOutput::RankOutput(std::vector<int> ranks, std::vector<bool> shown)
    : errors_(static_cast<int>(std::count(shown.begin(), shown.end(), true)), kMergePatience),
      to_output_(STDOUT_FILENO),
      to_errors_(STDERR_FILENO) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Rank rank;
    rank.number = ranks[i];
    rank.shown = shown[i];
    ranks_.push_back(std::move(rank));
  }
}

bool RankOutput::takes(std::size_t index, Stream stream) const {
  if (!ranks_[index].shown) return true;
  if (stream == Stream::kOutput) return !to_output_.full();
  return to_errors_.held_bytes() + errors_.held_bytes() < HeldOutput::kMostBytes;
}

bool RankOutput::read_from(std::size_t index, Stream stream, int fd, Time now) {
  Rank& rank = ranks_[index];
  LineSplitter& splitter = stream == Stream::kOutput ? rank.output : rank.errors;
  std::array<char, 1 << 16> bytes;
  std::vector<std::string> lines;
  bool open = true;
  ssize_t got = -1;
  do {
    got = ::read(fd, bytes.data(), bytes.size());
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    splitter.feed({bytes.data(), static_cast<std::size_t>(got)}, lines);
  } else if (got == 0 || errno != EAGAIN) {
    if (auto rest = splitter.rest()) lines.push_back(std::move(*rest));
    open = false;
  }
  for (auto& line : lines) show(rank, stream, std::move(line), now);
  return open;
}

void RankOutput::note_error(Rank& rank, const std::string& line) {
  if (!line.empty() && !rank.trace.at_trace()) rank.last_error = line;
}

void RankOutput::show(Rank& rank, Stream stream, std::string line, Time now) {
  if (stream == Stream::kErrors && !log_enabled(LogLevel::debug)) {
    std::optional<std::string> passed = rank.trace.pass(std::move(line));
    if (!passed) return;
    line = std::move(*passed);
  }
  if (stream == Stream::kErrors) {
    note_error(rank, line);
    const bool begins = begins_last_words(line);
    if (begins) show_last_words(rank, now);  // the words before were not the last
    if (begins || (!rank.words.empty() && rank.words.size() < kLastLines)) {
      rank.words.push_back(std::move(line));
      return;
    }
  }
  rank.last.push_back(line);
  if (rank.last.size() > kLastLines) rank.last.pop_front();
  if (stream == Stream::kErrors) return show_error(rank, std::move(line), now);
  if (!rank.shown) return;
  if (ranks_.size() == 1) {
    to_output_.write(line + "\n");
  } else {
    const std::array<int, 1> number{rank.number};
    to_output_.write((rank.number == 0 ? "" : rank_prefix(number)) + line + "\n");
  }
}

void RankOutput::flush(Time now) {
  for (const auto& line : errors_.take(now)) to_errors_.write(line + "\n");
  to_output_.flush();
  to_errors_.flush();
}

void RankOutput::show_error(const Rank& rank, std::string line, Time now) {
  if (!rank.shown) return;
  ranks_.size() == 1 ? to_errors_.write(line + "\n") : errors_.add(rank.number, std::move(line), now);
}

void RankOutput::show_last_words(Rank& rank, Time now) {
  for (std::string& line : std::exchange(rank.words, {})) show_error(rank, std::move(line), now);
}

void RankOutput::say(std::string_view text) {
  flush_all();
  to_errors_.write(text);
}

void RankOutput::flush_all() {
  for (const auto& line : errors_.take_all()) to_errors_.write(line + "\n");
  to_output_.flush();
  to_errors_.flush();
}

std::vector<int> RankOutput::waiting() const {
  std::vector<int> out;
  for (const HeldOutput* stream : {&to_output_, &to_errors_}) {
    if (stream->waits()) out.push_back(stream->fd());
  }
  return out;
}

void RankOutput::discard_held() {
  to_output_.discard();
  to_errors_.discard();
}

}  // namespace zero
