// Attempt: one start of all ranks of this machine, until all have ended.
//
//   Attempt attempt(options, {inbox, guard, memory, descriptors.before()});
//   attempt.run(identity);
//   if (find_culprit(attempt.ends()) != nullptr) attempt.say("...\n");
//   attempt.show();
//
// If a rank fails or cannot be started, the other ranks are ended. A rank that may fail (options.spared_from) is
// started again by itself while a rank that may not fail is running. There are at most identity.most_replacements such
// starts, and each is printed. A replacement that outlives these ranks is ended. With several machines, run() also
// follows machine_messages.h. Invariants: when run() returns or throws, no rank is left. Only show() waits for the
// reader of the output. Local; call run() once. Throws ConfigError if the program cannot be run.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/resource.h>

#include "zero/base/error/error.h"

#include "app/launch/failure_report.h"
#include "app/launch/held/memory_server.h"
#include "app/launch/machines/machine_leader.h"
#include "app/launch/machines/machine_member.h"
#include "app/launch/ranks/launch_options.h"
#include "app/launch/ranks/orphan_guard.h"
#include "app/launch/ranks/rank_environment.h"
#include "app/launch/ranks/rank_output.h"
#include "app/launch/ranks/rank_process.h"
#include "app/launch/ranks/signal_inbox.h"
#include "app/launch/replacement_policy.h"

namespace zero {

class Attempt {
 public:
  // The parts that all attempts of a launch share.
  struct Launcher {
    SignalInbox& inbox;
    OrphanGuard& guard;
    MemoryServer& memory;
    const rlimit& descriptors;  // descriptor limit of the ranks
    // On several machines whose ranks may fail, exactly one of these is set.
    MachineLeader* leader = nullptr;
    MachineMember* member = nullptr;
  };
  struct NotStarted {
    int place = 0;  // also the number of ranks that had been started
    IoError error;
  };

  Attempt(const LaunchOptions& options, const Launcher& launcher);
  // Starts the ranks, and returns when all have ended. On several machines the launcher of machine 0 decides about
  // ranks that may fail. Its attempt fails if it loses the launcher of a machine with ranks that may not fail. On
  // another machine, run() returns when all ranks have ended and machine 0's launcher has reported the end of the
  // attempt, or is lost.
  void run(const RunIdentity& identity);
  // Shows the ranks' reasons to end, which otherwise only a failure report contains.
  void show_last_words();
  // Prints `text` on standard error, after the ranks' output.
  void say(std::string_view text) { output_.say(text); }
  // Waits until the reader has taken all output, or until a signal arrives. Returns the signal, else 0. Drops the
  // remaining output after a signal, and also if an earlier signal has stopped the ranks and the reader takes nothing.
  int show();

  // Returns the ends of the ranks in their order; on machine 0, also the failures that other machines reported.
  const std::vector<RankEnd>& ends() const { return ends_; }
  const std::optional<NotStarted>& not_started() const { return not_started_; }
  // Returns the signal that told the launcher to stop; 0: none.
  int stop_signal() const { return stop_signal_; }
  bool all_ended_well() const;
  // Returns whether each place's last process ended with 0.
  bool each_did_its_part() const;
  // Returns the message of machine 0's launcher about the end of the attempt, on another machine.
  const std::optional<MachineMessage>& over() const { return over_; }
  // Returns how many ranks were started again by themselves; on machine 0, of all machines.
  int num_replacements() const { return replacements_.used(); }

 private:
  using Clock = std::chrono::steady_clock;

  void start(const RunIdentity& identity);
  void start_rank(int place, const RunIdentity& identity);
  RankProcess start_process(int place, const RunIdentity& identity);
  int rank_of(std::size_t place) const { return options_.node_rank * options_.ranks + static_cast<int>(place); }
  void plan_replacement(const RankEnd& end, std::size_t place);
  // Returns kAgain or kNoMore for a rank of any machine whose process ran for `lived`.
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
  // Reads the outputs that have room for more; with `all`, after the ranks are gone, every output.
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
  std::map<std::size_t, int> numbers_;  // numbers of replacement processes, by local rank
  struct Question {
    int number = 0;
    Clock::time_point due, until;  // of the answer; of the wait for other launchers
    MachineMessage asked;
    std::vector<int> awaited{};  // machines whose answers are awaited
  };
  int num_questions_ = 0;
  std::vector<Question> questions_;        // on machine 0
  std::vector<RankEnd> failed_elsewhere_;  // on machine 0
  struct Asked {
    Clock::time_point until;
    std::string how;  // how the rank ended
  };
  std::map<std::size_t, Asked> asked_;  // on another machine, by local rank
  struct Check {
    Clock::time_point due;
    int number = 0;
  };
  std::vector<Check> checks_;           // on another machine
  std::optional<MachineMessage> over_;  // on another machine
  int stop_signal_ = 0;
  bool told_to_end_ = false;                    // the ranks were told to end after a failure
  std::optional<Clock::time_point> failed_at_;  // time of the first failure
  std::optional<Clock::time_point> next_end_;   // when the ranks will be told to end, or killed
  std::vector<std::size_t> ended_;              // local ranks, in the order in which they ended
  std::vector<RankEnd> ends_;                   // the same order
  std::optional<NotStarted> not_started_;
};

}  // namespace zero
