// Attempt: one start of all ranks of this machine, until all have ended.
//
//   Attempt attempt(options, {inbox, guard, memory, descriptors.before()});
//   attempt.run(identity);
//   if (find_culprit(attempt.ends()) != nullptr) attempt.say("...\n");
//   attempt.show();
//
// When one fails, or cannot be started, the others are ended. One that may fail (options.spared_from) is started again
// alone while identity.most_replacements allows it and ranks that may not fail are there; a line says so. A replacement
// that is left when those have ended is ended, too. Invariants: when run() returns or throws, no rank is left; show()
// alone waits for the reader of our output. Throws ConfigError when the program cannot be run. Local; run() once.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/resource.h>

#include "zero/base/error.h"
#include "zero/launch/failure_report.h"
#include "zero/launch/launch_options.h"
#include "zero/launch/memory_server.h"
#include "zero/launch/orphan_guard.h"
#include "zero/launch/rank_environment.h"
#include "zero/launch/rank_output.h"
#include "zero/launch/rank_process.h"
#include "zero/launch/replacement_policy.h"
#include "zero/launch/signal_inbox.h"

namespace zero {

class Attempt {
 public:
  // What all attempts of a launch share.
  struct Launcher {
    SignalInbox& inbox;
    OrphanGuard& guard;
    MemoryServer& memory;
    const rlimit& descriptors;  // of the ranks
  };
  struct NotStarted {
    int place = 0;  // as many ranks had been started
    IoError error;
  };

  Attempt(const LaunchOptions& options, const Launcher& launcher);
  void run(const RunIdentity& identity);
  // What the ranks said of their ends, which a failure report says otherwise.
  void show_last_words();
  // On standard error, behind what the ranks printed.
  void say(std::string_view text) { output_.say(text); }
  // Waits until all has been read, or until a signal comes: that, else 0; then what is left is dropped, as it is where
  // a signal has stopped the ranks and the reader takes nothing.
  int show();

  // In the order in which they ended.
  const std::vector<RankEnd>& ends() const { return ends_; }
  const std::optional<NotStarted>& not_started() const { return not_started_; }
  // 0: nobody told us to stop.
  int stop_signal() const { return stop_signal_; }
  bool all_ended_well() const;
  // Ranks that were started again alone.
  int num_replacements() const { return replacements_.used(); }

 private:
  using Clock = std::chrono::steady_clock;

  void start(const RunIdentity& identity);
  void start_rank(int place, const RunIdentity& identity);
  RankProcess start_process(int place, const RunIdentity& identity);
  void plan_replacement(const RankEnd& end, std::size_t place);
  void start_replacements(const RunIdentity& identity);
  bool may_fail(std::size_t place) const;
  bool has_peers() const;
  void end_replacements_without_peers();
  void wait_for_something();
  void take_signals();
  void stop(int signal);
  // Each that has room for more; or of all, when the ranks are gone.
  void read_outputs(bool all = false);
  void reap();
  void end_after_failure();
  bool someone_is_leaving() const;
  void drain();
  void send_all(int signal) const;

  const LaunchOptions& options_;
  Launcher launcher_;
  std::vector<int> cores_;
  std::vector<bool> shown_;
  RankOutput output_;
  std::vector<RankProcess> ranks_;
  int num_running_ = 0;
  Clock::time_point started_ = Clock::now();
  ReplacementPolicy replacements_{0};
  std::map<std::size_t, Clock::time_point> started_at_, replacement_due_;  // by local rank
  int stop_signal_ = 0;
  bool told_to_end_ = false;                    // after a failure
  std::optional<Clock::time_point> failed_at_;  // the first
  std::optional<Clock::time_point> next_end_;   // when the ranks are told to end, or killed
  std::vector<std::size_t> ended_;              // local ranks, in the order in which they ended
  std::vector<RankEnd> ends_;                   // the same order
  std::optional<NotStarted> not_started_;
};

}  // namespace zero
