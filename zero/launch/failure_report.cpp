#include "zero/launch/failure_report.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "zero/base/exit_status.h"

namespace zero {
namespace {

constexpr std::size_t kMostWitnesses = 4;

// What usually lies behind an end like this, and what to look at next.
std::string advice(const ProcessEnd& end) {
  switch (end.signal) {
    case SIGKILL:
      return "Killed from outside: by hand, or by the kernel when memory ran out (see `dmesg | tail`; `zero plan` says "
             "what a rank needs).";
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
      return "It crashed: run it alone under a debugger, for example `zero launch --nproc-per-node 1 -- gdb -batch -ex "
             "run -ex bt --args PROGRAM ...`.";
    default:
      break;
  }
  if (end.exit_code == kRankFailedStatus)
    return "Its last lines say why. If it lost a peer on another machine, look at the launcher's output there.";
  return "Its last lines say why; start again when that is put right.";
}

// Of what was refused before it began, the refusal ("zero train: ...") alone, not what rank 0 printed until then.
std::span<const std::string> told_again(const RankEnd& culprit) {
  const std::span<const std::string> lines = culprit.last_lines;
  if (culprit.end.exit_code != kBadInputStatus) return lines;
  const auto is_refusal = [](const std::string& line) { return line.starts_with("zero "); };
  const auto last = std::find_if(lines.rbegin(), lines.rend(), is_refusal);
  return last == lines.rend() ? lines : lines.last(static_cast<std::size_t>(last - lines.rbegin()) + 1);
}

}  // namespace

const RankEnd* find_culprit(std::span<const RankEnd> ends) {
  const auto failed = [](const RankEnd& end) { return end.failed(); };
  const auto accused = [](const RankEnd& end) { return end.failed() && end.end.exit_code != kRankFailedStatus; };
  auto found = std::find_if(ends.begin(), ends.end(), accused);
  if (found == ends.end()) found = std::find_if(ends.begin(), ends.end(), failed);
  return found == ends.end() ? nullptr : &*found;
}

const RankEnd* find_suspect(std::span<const RankEnd> ends) {
  const RankEnd* culprit = find_culprit(ends);
  if (culprit == nullptr) return nullptr;
  if (culprit->end.exit_code != kRankFailedStatus) {
    // What several ranks say alike, such as a full disk, is no single place's fault.
    const auto alike = [&](const RankEnd& end) { return end.failed() && end.end.exit_code == culprit->end.exit_code; };
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
  std::string out = fmt::format("zero launch: rank {} of {} failed with {} after {:.1f} s{}\n", culprit->rank, world,
                                describe(culprit->end), culprit->seconds, world > 1 ? "; all ranks were ended" : "");
  if (culprit->last_lines.empty()) {
    out += "  it printed nothing\n";
  } else {
    out += "  its last lines:\n";
    for (const auto& line : told_again(*culprit)) out += fmt::format("    {}\n", line);
  }
  std::size_t witnesses = 0;
  for (const auto& end : ends) {
    if (&end == culprit || !end.failed() || ++witnesses > kMostWitnesses) continue;
    const bool same_words = !end.last_lines.empty() && end.last_lines == culprit->last_lines;
    const std::string words = same_words               ? ", in the same words"
                              : end.last_lines.empty() ? ""
                                                       : ": " + end.last_lines.back();
    out += fmt::format("  rank {} then failed with {}{}\n", end.rank, describe(end.end), words);
  }
  if (witnesses > kMostWitnesses) out += fmt::format("  and {} more\n", witnesses - kMostWitnesses);
  return out + "  " + advice(culprit->end) + "\n";
}

}  // namespace zero
