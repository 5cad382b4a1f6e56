#include "app/train/folder/push_log.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/crc32c.h"

namespace zero {
namespace {

constexpr std::string_view kBegin = "begin", kResumed = "resumed", kRank = "rank", kPush = "push", kLeave = "leave",
                           kReturn = "return", kEnd = "end", kFormat = "format";
// A log of format 1 had neither a format nor an end; a log of format 2 did not have the places of its ranks.
constexpr std::string_view kThisFormat = "3";
constexpr std::string_view kDamaged = "it was changed after it was written",
                           kAsItWas = "give the folder of a run as `zero train` left it";

std::string sum_of(const std::string& before, std::string_view text) {
  return fmt::format("{:08x}", crc32c(before + std::string(text)));
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::size_t line, std::string_view reason,
                         std::string_view remedy = kAsItWas) {
  throw ConfigError("--replay", path.string(), fmt::format("line {}: {}", line, reason), remedy);
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

std::int64_t number_in(std::string_view word) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? number : -1;
}

// Checks the format before the line's checksum, which may be computed otherwise in another format.
void require_format(const std::filesystem::path& path, const std::vector<std::string_view>& first) {
  if (first.size() < 2 || first[0] != kBegin) refuse(path, 1, kDamaged);
  const bool names_it = first.size() == 4 && first[2] == kFormat;
  if (!names_it && first.size() != 2) refuse(path, 1, kDamaged);
  const std::string_view format = names_it ? first[3] : "1";
  if (format == kThisFormat) return;
  refuse(path, 1, fmt::format("it is a log of format {}, and this zero reads format {}", format, kThisFormat),
         "repeat the run with this zero, and replay the new log");
}

PushEvent event_in(const std::filesystem::path& path, std::size_t line, const std::vector<std::string_view>& words) {
  const bool known = words.size() == 3 && (words[0] == kPush || words[0] == kLeave || words[0] == kReturn);
  if (!known) refuse(path, line, kDamaged);
  return {.worker = static_cast<int>(number_in(words[1])),
          .clock = number_in(words[2]),
          .leaves = words[0] == kLeave,
          .returns = words[0] == kReturn};
}

// Returns the place in a line, which must be the line of `rank`.
ComputingPlace place_in(const std::filesystem::path& path, std::size_t line, std::string_view said, std::size_t rank) {
  const std::string head = fmt::format("{} {} ", kRank, rank);
  const auto place = said.starts_with(head) ? place_of_text(said.substr(head.size())) : std::nullopt;
  if (!place) refuse(path, line, kDamaged);
  return *place;
}

}  // namespace

PushLog::PushLog(const std::filesystem::path& path, std::int64_t clock, std::span<const ComputingPlace> places) {
  if (clock == 0) std::filesystem::remove(path);
  file_.emplace(path);
  add_line(fmt::format("{} {} {} {}", clock == 0 ? kBegin : kResumed, clock, kFormat, kThisFormat));
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    add_line(fmt::format("{} {} {}", kRank, rank, to_text(places[rank])));
}

void PushLog::add_line(std::string text) {
  sum_ = sum_of(sum_, text);
  pending_ += fmt::format("{} {}\n", text, sum_);
}

void PushLog::add(const PushEvent& event) {
  const std::string_view what = event.leaves ? kLeave : event.returns ? kReturn : kPush;
  add_line(fmt::format("{} {} {}", what, event.worker, event.clock));
}

void PushLog::end(std::int64_t clocks) {
  add_line(fmt::format("{} {}", kEnd, clocks));
}

void PushLog::flush() {
  if (!pending_.empty()) file_->append(std::exchange(pending_, {}));
}

RecordedPushes PushLog::read(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  RecordedPushes recorded;
  std::deque<PushEvent>& events = recorded.events;
  std::string sum;
  std::size_t line = 0;
  bool has_ended = false;
  for (std::string_view rest = text; !rest.empty();) {
    ++line;
    const std::string_view whole = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(whole.size() + 1, rest.size()));
    const std::size_t space = std::min(whole.rfind(' '), whole.size());
    const std::string_view said = whole.substr(0, space);
    const std::vector<std::string_view> words = words_of(said);
    if (!words.empty() && words[0] == kResumed)
      refuse(path, line, "the run was resumed, and the log lacks some earlier events",
             "give the folder of a run that did all its steps without a restart");
    if (line == 1) require_format(path, words);
    sum = sum_of(sum, said);
    if (space == whole.size() || whole.substr(space + 1) != sum) refuse(path, line, kDamaged);
    if (has_ended) refuse(path, line, "it follows the end of the run");
    if (line == 1) continue;
    if (!words.empty() && words[0] == kRank) {
      recorded.places.push_back(place_in(path, line, said, recorded.places.size()));
      continue;
    }
    has_ended = words.size() == 2 && words[0] == kEnd;
    if (!has_ended) events.push_back(event_in(path, line, words));
  }
  if (line == 0) refuse(path, 1, "it is empty");
  if (!has_ended)
    refuse(path, line,
           fmt::format("the log ends here, in clock {}, without the line that a run writes when all its steps are "
                       "done: the run was stopped early, or lines are missing",
                       events.empty() ? 0 : events.back().clock),
           "give the folder of a run that did all its steps, as `zero train` left it");
  return recorded;
}

}  // namespace zero
