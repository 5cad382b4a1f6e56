// The failure report: names the rank at fault once, on one screen, and gives the launcher's exit status.
//
// When one rank dies its peers notice and fail too, sometimes before the launcher hears of the first. A rank that lost a
// peer, as its flight ring or its reason says, is a witness, however it ends. A rank that ends with kRankFailedStatus may
// be one. The culprit is the first rank that failed and is neither. If there is none, it is the rank that the others miss,
// if that rank printed its reason before the launcher ended it; else the first rank that failed and is no witness; else the
// first rank that ended.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zero/flight/record.h"
#include "zero/launch/rank_process.h"

namespace zero {

struct RankEnd {
  int rank = 0;
  ProcessEnd end;
  bool ended_by_us = false;               // the launcher had already told it to end
  bool spared = false;                    // the others go on without it
  double seconds = 0;                     // after the start
  std::vector<std::string> last_lines{};  // that it printed
  std::vector<std::string> last_words{};  // why it ends, where a verb of the command said so (last_words.h)
  std::string last_error{};               // its last line on standard error, without libtorch's trace
  bool shown = true;                      // what it printed was shown, but for the last words
  std::optional<FlightLoss> lost{};       // another rank that its error named, as its flight ring notes it

  bool failed() const { return !ended_by_us && !spared && (end.exit_code != 0 || end.signal != 0); }
};

// `ends` in the order in which they ended. Null when none failed.
const RankEnd* find_culprit(std::span<const RankEnd> ends);

// Whose place it happened at: the culprit, unless several ended with its status; or when all that failed are witnesses,
// the one rank that did not end when it was told to and had to be killed (stopped, or stuck). Null when that is not
// known.
const RankEnd* find_suspect(std::span<const RankEnd> ends);

// 2 and 4 are passed on (a bad configuration, a failed read or write); everything else is 3: a rank failed.
int exit_status(const RankEnd& culprit);

// "exit status 3", "signal 9 (SIGKILL)".
std::string describe(const ProcessEnd& end);

// Nothing that was shown is told again. Of a refusal: its words alone.
std::string failure_report(std::span<const RankEnd> ends, int world);

}  // namespace zero
