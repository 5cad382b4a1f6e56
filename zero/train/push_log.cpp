#include "zero/train/push_log.h"

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/base/crc32c.h"
#include "zero/base/error.h"

namespace zero {
namespace {

constexpr std::string_view kBegin = "begin", kResumed = "resumed", kPush = "push", kLeave = "leave", kReturn = "return";

std::string sum_of(const std::string& before, std::string_view text) {
  return fmt::format("{:08x}", crc32c(before + std::string(text)));
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::size_t line, const std::string& reason) {
  throw ConfigError("--replay", path.string(), fmt::format("line {}: {}", line, reason),
                    "give the folder of a run as `zero train` left it");
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

}  // namespace

PushLog::PushLog(const std::filesystem::path& path, std::int64_t clock) {
  if (clock == 0) std::filesystem::remove(path);
  file_.emplace(path);
  add_line(fmt::format("{} {}", clock == 0 ? kBegin : kResumed, clock));
}

void PushLog::add_line(std::string text) {
  sum_ = sum_of(sum_, text);
  pending_ += fmt::format("{} {}\n", text, sum_);
}

void PushLog::add(const PushEvent& event) {
  const std::string_view what = event.leaves ? kLeave : event.returns ? kReturn : kPush;
  add_line(fmt::format("{} {} {}", what, event.worker, event.clock));
}

void PushLog::flush() {
  if (!pending_.empty()) file_->append(std::exchange(pending_, {}));
}

std::deque<PushEvent> PushLog::read(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::deque<PushEvent> events;
  std::string sum;
  std::size_t line = 0;
  for (std::string_view rest = text; !rest.empty();) {
    ++line;
    const std::string_view whole = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(whole.size() + 1, rest.size()));
    const std::size_t space = std::min(whole.rfind(' '), whole.size());
    const std::string_view said = whole.substr(0, space);
    const std::vector<std::string_view> words = words_of(said);
    if (!words.empty() && words[0] == kResumed)
      refuse(path, line, "the run was resumed, and its events before are not all in it");
    sum = sum_of(sum, said);
    if (space == whole.size() || whole.substr(space + 1) != sum) refuse(path, line, "it is not as it was written");
    if (line == 1) continue;
    events.push_back({.worker = static_cast<int>(number_in(words.at(1))),
                      .clock = number_in(words.at(2)),
                      .leaves = words.at(0) == kLeave,
                      .returns = words.at(0) == kReturn});
  }
  if (line == 0) refuse(path, 1, "it is empty");
  return events;
}

}  // namespace zero
