// Attempt: one start of all ranks of this machine, until all have ended.
//
//   Attempt attempt(options, {inbox, guard, memory, descriptors.before()});
//   attempt.run(identity);
//   if (find_culprit(attempt.ends()) != nullptr) attempt.say("...\n");
//   attempt.show();
//
// If a rank fails or cannot be started, the other ranks are ended. A rank without which the others can continue
// (options.spared_from) is started again, without the others, while a rank that may not fail is running. There are at
// most identity.most_replacements such starts, and each is printed. A replacement that outlives these ranks is ended.
// With several machines, OtherMachines exchanges messages with the other launchers. Invariants: when run() returns or
// throws, no rank is left. Only show() waits for the reader of the output. Local; call run() once. Throws ConfigError
// if the program cannot be run.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>

#include "zero/base/error/error.h"

#include "app/launch/failure_report.h"
#include "app/launch/held/memory_server.h"
#include "app/launch/other_machines.h"
#include "app/launch/ranks/launch_options.h"
#include "app/launch/ranks/orphan_guard.h"
#include "app/launch/ranks/rank_environment.h"
#include "app/launch/ranks/rank_output.h"
#include "app/launch/ranks/rank_process.h"
#include "app/launch/ranks/signal_inbox.h"
#include "app/launch/replacement_policy.h"

namespace zero {

class Attempt final : private OwnRanks {
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
    int local_rank = 0;  // also the number of ranks that had been started
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
  void say(std::string_view text) override { output_.say(text); }
  // Waits until the reader has taken all output, or until a signal arrives. Returns the signal, else 0. Drops the
  // remaining output after a signal, and also if an earlier signal has stopped the ranks and the reader takes nothing.
  int show();

  // Returns the ends of the ranks in their order; on machine 0, also the failures that other machines reported.
  const std::vector<RankEnd>& ends() const override { return ends_; }
  const std::optional<NotStarted>& not_started() const { return not_started_; }
  // Returns the signal that told the launcher to stop; 0: none.
  int stop_signal() const { return ending_.stop_signal; }
  bool all_ended_well() const;
  // Returns whether the last process of each rank ended with 0.
  bool each_did_its_part() const;
  // Returns the message of machine 0's launcher about the end of the attempt, on another machine.
  const std::optional<MachineMessage>& over() const { return others_->over(); }
  // Returns how many ranks were started again by themselves; on machine 0, of all machines.
  int num_replacements() const { return replacements_.used(); }

 private:
  using Clock = AttemptEnd::Clock;

  void start(const RunIdentity& identity);
  void start_rank(int local_rank, const RunIdentity& identity);
  RankProcess start_process(int local_rank, const RunIdentity& identity);
  int rank_of(std::size_t local_rank) const {
    return options_.node_rank * options_.ranks + static_cast<int>(local_rank);
  }
  void plan_replacement(const RankEnd& end, std::size_t local_rank);
  void read_all_of(std::size_t local_rank);
  void start_replacements(const RunIdentity& identity);
  bool may_fail(std::size_t local_rank) const;
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

  // For the launchers of other machines.
  AttemptEnd& ending() override { return ending_; }
  int num_running() const override { return num_running_; }
  double seconds() const override { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  bool has_needed_ranks() const override;
  bool takes_back() const override;
  MachineMessage decide(int rank, std::chrono::milliseconds lived) override;
  void replace(std::size_t local_rank, const std::string& how, const MachineMessage& again) override;
  bool has_planned_replacements() const override { return !replacement_due_.empty(); }
  void drop_planned_replacements() override { replacement_due_.clear(); }
  std::string last_words(std::size_t local_rank) override;

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
  const std::unique_ptr<OtherMachines> others_;
  AttemptEnd ending_;
  std::vector<std::size_t> ended_;  // local ranks, in the order in which they ended
  std::vector<RankEnd> ends_;       // the same order
  std::optional<NotStarted> not_started_;
};

}  // namespace zero
