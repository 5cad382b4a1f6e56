#include "app/launch/failure_report.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "zero/base/error/exit_status.h"

#include "app/launch/ranks/last_words.h"

namespace zero {
namespace {

constexpr std::size_t kMostWitnesses = 4;

// Returns the usual cause of such an end, and the next step.
std::string_view advice(const ProcessEnd& end) {
  switch (end.signal) {
    case SIGKILL:
      return "Killed from outside: by hand, or by the kernel when memory ran out (see `dmesg | tail`; `zero plan` says "
             "how much a rank needs).";
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
      return "It crashed: run only this rank under a debugger, for example `zero launch --nproc-per-node 1 -- gdb "
             "-batch -ex run -ex bt --args PROGRAM ...`.";
    default:
      break;
  }
  return "";
}

// Returns the first line of the rank's reason.
std::string_view reason_of(const RankEnd& end) {
  return end.last_words.empty() ? end.last_error : end.last_words.front();
}

// Returns the other rank that a rank named; empty: it named none.
std::optional<int> accused_by(const RankEnd& end) {
  const int accused = end.lost ? end.lost->rank : accused_rank(reason_of(end));
  return accused >= 0 && accused != end.rank ? std::optional(accused) : std::nullopt;
}
bool accuses_another(const RankEnd& end) {
  return accused_by(end).has_value();
}

std::string lines_of(std::span<const std::string> lines, std::string_view indent) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("{}{}\n", indent, line);
  return text;
}

// Returns the rank's lines for the report. Lines that were shown are above the report, with the rank's number.
std::string what_it_said(const RankEnd& end) {
  if (!end.last_words.empty()) return lines_of(end.last_words, "  ");
  if (end.last_lines.empty()) return "  it printed nothing\n";
  return end.shown ? "" : "  its last lines:\n" + lines_of(end.last_lines, "    ");
}

std::string_view unshown_reason_of(const RankEnd& end) {
  return end.shown && end.last_words.empty() ? std::string_view() : reason_of(end);
}

// Returns the words of a refusal, and the rank if no other rank says the same.
std::string refusal(const RankEnd& culprit, std::span<const RankEnd> ends, int world) {
  const auto same =
      std::count_if(ends.begin(), ends.end(), [&](const RankEnd& end) { return end.last_words == culprit.last_words; });
  return lines_of(culprit.last_words, "") +
         (world > 1 && same == 1 ? fmt::format("  rank {} of {} says so\n", culprit.rank, world) : "");
}

// Returns the failures of the other ranks, except those that the culprit's own reason explains.
std::string witnesses_of(const RankEnd& culprit, std::span<const RankEnd> ends) {
  std::string out;
  std::size_t witnesses = 0;
  for (const RankEnd& end : ends) {
    const bool told = !culprit.last_words.empty() && (accuses_another(end) || end.last_words == culprit.last_words);
    if (&end == &culprit || !end.failed() || told || ++witnesses > kMostWitnesses) continue;
    const std::string_view reason = unshown_reason_of(end);
    out += fmt::format("  rank {} then failed with {}{}{}\n", end.rank, describe(end.end), reason.empty() ? "" : ": ",
                       reason);
  }
  if (witnesses > kMostWitnesses) out += fmt::format("  and {} more\n", witnesses - kMostWitnesses);
  return out;
}

}  // namespace

const RankEnd* find_culprit(std::span<const RankEnd> ends) {
  const auto failed = [](const RankEnd& end) { return end.failed(); };
  const auto accused = [](const RankEnd& end) {
    return end.failed() && end.end.exit_code != kRankFailedStatus && !accuses_another(end);
  };
  auto found = std::find_if(ends.begin(), ends.end(), accused);
  // A rank that printed its reason, but after its peers had missed it.
  const auto overtaken = [&](const RankEnd& end) {
    const auto misses_it = [&](const RankEnd& peer) { return peer.failed() && accused_by(peer) == end.rank; };
    const int code = end.end.exit_code;
    return end.ended_by_us && end.end.signal == 0 && (code == kBadInputStatus || code == kIoFailedStatus) &&
           !end.last_words.empty() && std::any_of(ends.begin(), ends.end(), misses_it);
  };
  if (found == ends.end()) found = std::find_if(ends.begin(), ends.end(), overtaken);
  const auto own = [](const RankEnd& end) { return end.failed() && !accuses_another(end); };
  if (found == ends.end()) found = std::find_if(ends.begin(), ends.end(), own);
  if (found == ends.end()) found = std::find_if(ends.begin(), ends.end(), failed);
  return found == ends.end() ? nullptr : &*found;
}

const RankEnd* find_suspect(std::span<const RankEnd> ends) {
  const RankEnd* culprit = find_culprit(ends);
  if (culprit == nullptr) return nullptr;
  if (culprit->end.exit_code != kRankFailedStatus) {
    // What several ranks say alike, such as a full disk, is no single rank's fault.
    const auto alike = [&](const RankEnd& end) {
      return end.failed() && !end.lost && end.end.exit_code == culprit->end.exit_code;
    };
    return culprit->end.signal == 0 && std::count_if(ends.begin(), ends.end(), alike) > 1 ? nullptr : culprit;
  }
  const auto killed = [](const RankEnd& end) { return end.ended_by_us && end.end.signal == SIGKILL; };
  if (std::count_if(ends.begin(), ends.end(), killed) != 1) return nullptr;
  return &*std::find_if(ends.begin(), ends.end(), killed);
}

int exit_status(const RankEnd& culprit) {
  const int code = culprit.end.exit_code;
  return code == kBadInputStatus || code == kIoFailedStatus ? code : kRankFailedStatus;
}

std::string describe(const ProcessEnd& end) {
  if (end.signal == 0) return fmt::format("exit status {}", end.exit_code);
  const char* name = sigabbrev_np(end.signal);
  return fmt::format("signal {} (SIG{})", end.signal, name != nullptr ? name : "?");
}

std::string failure_report(std::span<const RankEnd> ends, int world) {
  const RankEnd* culprit = find_culprit(ends);
  if (culprit == nullptr) return "";
  if (culprit->end.exit_code == kBadInputStatus && !culprit->last_words.empty()) return refusal(*culprit, ends, world);
  std::string out = fmt::format("zero launch: rank {} of {} failed with {} after {:.1f} s{}\n", culprit->rank, world,
                                describe(culprit->end), culprit->seconds, world > 1 ? "; all ranks were ended" : "");
  out += what_it_said(*culprit) + witnesses_of(*culprit, ends);
  const std::string_view advised = advice(culprit->end);
  return advised.empty() ? out : fmt::format("{}  {}\n", out, advised);
}

}  // namespace zero
