#include "app/launch/ranks/last_words.h"

#include <charconv>
#include <utility>

namespace zero {
namespace {

constexpr std::string_view kCommand = "zero ";

// Returns the text after "zero VERB: "; nullopt if the line does not begin so.
std::optional<std::string_view> behind_verb(std::string_view line) {
  if (!line.starts_with(kCommand)) return std::nullopt;
  line.remove_prefix(kCommand.size());
  const auto end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz");
  if (end == 0 || end == std::string_view::npos || !line.substr(end).starts_with(": ")) return std::nullopt;
  if (line.substr(0, end) == "launch") return std::nullopt;
  return line.substr(end + 2);
}

}  // namespace

bool begins_last_words(std::string_view line) {
  return behind_verb(line).has_value();
}

int accused_rank(std::string_view line) {
  constexpr std::string_view kRank = "rank ", kUncaught = "  what():  ";
  std::string_view text = behind_verb(line).value_or(line);
  if (text.starts_with(kUncaught)) text.remove_prefix(kUncaught.size());
  if (!text.starts_with(kRank)) return -1;
  text.remove_prefix(kRank.size());
  int rank = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc() && text.starts_with(": ") ? rank : -1;
}

int rank_that_left(std::string_view line) {
  constexpr std::string_view kLeft = ": it left ";  // words of BoardWait and MessageCommunicator
  return line.find(kLeft) == std::string_view::npos ? -1 : accused_rank(line);
}

std::optional<std::string> TraceFilter::pass(std::string line) {
  at_trace_ = line.starts_with("Exception raised from ") && line.ends_with("(most recent call first):");
  if (at_trace_) {
    in_trace_ = true;
    return "  (libtorch's trace is left out; ZERO_LOG_LEVEL=debug shows it)";
  }
  if (in_trace_ && line.starts_with("frame #")) return std::nullopt;
  const bool ends = std::exchange(in_trace_, false);
  if (ends && line.empty()) return std::nullopt;  // the empty line also belongs to the trace
  return line;
}

}  // namespace zero
