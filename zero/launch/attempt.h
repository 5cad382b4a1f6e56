// Attempt: one start of all ranks of this machine, until all have ended.
//
//   Attempt attempt(options, {inbox, guard, memory, descriptors.before()});
//   attempt.run(identity);
//   if (find_culprit(attempt.ends()) != nullptr) attempt.say("...\n");
//   attempt.show();
//
// When one fails, or cannot be started, the others are ended. One that may fail (options.spared_from) is started again
// alone while identity.most_replacements allows it and ranks that may not fail are there; a line says so. A replacement
// that is left when those have ended is ended, too. On several machines the launcher of machine 0 decides about such ranks
// (machine_messages.h), and the attempt fails there when a launcher is gone whose ranks may not fail. Elsewhere run() returns
// when all ranks have ended and it has said that the attempt is over, or it is gone. Invariants: when run() returns or throws, no rank is left; show() alone waits for the reader of our output. Throws ConfigError when the program cannot be run. Local; run() once.
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
#include "zero/launch/machine_leader.h"
#include "zero/launch/machine_member.h"
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
    // On several machines whose ranks may fail: one of the two.
    MachineLeader* leader = nullptr;
    MachineMember* member = nullptr;
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

  // In the order in which they ended; on machine 0 also what others told of theirs.
  const std::vector<RankEnd>& ends() const { return ends_; }
  const std::optional<NotStarted>& not_started() const { return not_started_; }
  // 0: nobody told us to stop.
  int stop_signal() const { return stop_signal_; }
  bool all_ended_well() const;
  // Of each place the last process ended with 0.
  bool each_did_its_part() const;
  // What machine 0's launcher said of the end of the attempt, on another machine.
  const std::optional<MachineMessage>& over() const { return over_; }
  // Ranks that were started again alone: on machine 0 of all machines.
  int num_replacements() const { return replacements_.used(); }

 private:
  using Clock = std::chrono::steady_clock;

  void start(const RunIdentity& identity);
  void start_rank(int place, const RunIdentity& identity);
  RankProcess start_process(int place, const RunIdentity& identity);
  int rank_of(std::size_t place) const { return options_.node_rank * options_.ranks + static_cast<int>(place); }
  void plan_replacement(const RankEnd& end, std::size_t place);
  // kAgain or kNoMore, of a rank of any machine that a process has lived for so long.
  MachineMessage decide(int rank, std::chrono::milliseconds lived);
  bool takes_back() const;
  void replace(std::size_t place, const std::string& how, const MachineMessage& again);
  void read_all_of(std::size_t place);
  void start_replacements(const RunIdentity& identity);
  bool may_fail(std::size_t place) const;
  bool has_peers() const;
  // Several machines (attempt_machines.cpp).
  void hear_machines();
  void hear_members();
  void ask_about(MachineMessage lost);
  void answer_questions();
  void note_failure(RankEnd end);
  void hear_leader();
  void answer_checks();
  void end_for_leader();
  bool awaits_leader() const;
  bool awaits_members() const;
  void tell_failure(const RankEnd& end, std::size_t place);
  std::optional<Clock::time_point> machines_due() const;
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
  std::map<std::size_t, int> numbers_;  // of the processes that replaced a rank's first, by local rank
  struct Question {
    int number = 0;
    Clock::time_point due, until;  // the answer; launchers that have ranks that may not fail are waited for
    MachineMessage asked;
    std::vector<int> awaited{};  // machines
  };
  int num_questions_ = 0;
  std::vector<Question> questions_;        // on machine 0
  std::vector<RankEnd> failed_elsewhere_;  // on machine 0
  struct Asked {
    Clock::time_point until;
    std::string how;  // the rank has ended
  };
  std::map<std::size_t, Asked> asked_;  // on another machine, by local rank
  struct Check {
    Clock::time_point due;
    int number = 0;
  };
  std::vector<Check> checks_;           // on another machine
  std::optional<MachineMessage> over_;  // on another machine
  int stop_signal_ = 0;
  bool told_to_end_ = false;                    // after a failure
  std::optional<Clock::time_point> failed_at_;  // the first
  std::optional<Clock::time_point> next_end_;   // when the ranks are told to end, or killed
  std::vector<std::size_t> ended_;              // local ranks, in the order in which they ended
  std::vector<RankEnd> ends_;                   // the same order
  std::optional<NotStarted> not_started_;
};

}  // namespace zero
