// failure_report(): names the rank at fault, once and on one screen.
//
// If a rank dies, its peers also fail, sometimes before the launcher notices the first failure. A rank that lost a
// peer, according to its flight ring or its reason, is a witness, however it ends. A rank that ends with
// kRankFailedStatus may be a witness. find_culprit() selects the rank at fault.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zero/comm/flight/record.h"

#include "app/launch/ranks/rank_process.h"

namespace zero {

struct RankEnd {
  int rank = 0;
  ProcessEnd end;
  bool ended_by_us = false;               // the launcher had already told it to end
  bool spared = false;                    // the other ranks continue without it
  double seconds = 0;                     // seconds from the start to the end
  std::vector<std::string> last_lines{};  // last lines that it printed
  std::vector<std::string> last_words{};  // its reason to end, if a verb of the command printed it (last_words.h)
  std::string last_error{};               // its last line on standard error, without libtorch's trace
  bool shown = true;                      // was its output shown, except the last words?
  std::optional<FlightLoss> lost{};       // another rank that its error named, as its flight ring notes it

  bool failed() const { return !ended_by_us && !spared && (end.exit_code != 0 || end.signal != 0); }
};

// Returns the culprit; null if no rank failed. `ends` is in the order of the ends. The first rule that finds a rank
// counts:
// 1. the first failed rank that is no witness, and did not end with kRankFailedStatus;
// 2. a rank that witnesses lost, if it gave its reason but ended after the launcher had told it to end: rank 1 finds
//    the disk full, its peers miss it and fail first, and rank 1 prints its error (kIoFailedStatus or kBadInputStatus);
// 3. the first failed rank that is no witness;
// 4. the first failed rank.
const RankEnd* find_culprit(std::span<const RankEnd> ends);

// Returns the suspect: the rank to leave out, if the launch continues with fewer (min_ranks); null if it is not known.
// It is the culprit, unless several ranks ended with its status. If all failed ranks are witnesses, it is the only rank
// that had to be killed. Such a rank was stopped or stuck, and did not end when told to.
const RankEnd* find_suspect(std::span<const RankEnd> ends);

// Returns the culprit's status if it is 2 (bad configuration) or 4 (failed read or write); else 3: a rank failed.
int exit_status(const RankEnd& culprit);

// Returns "exit status 3" or "signal 9 (SIGKILL)".
std::string describe(const ProcessEnd& end);

// Returns the report. It does not repeat output that was shown. The report of a refused configuration is only the
// rank's own words.
std::string failure_report(std::span<const RankEnd> ends, int world);

}  // namespace zero
