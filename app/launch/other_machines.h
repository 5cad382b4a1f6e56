// OtherMachines: the launchers of other machines, as one attempt sees them (machines/machine_messages.h).
//
//   const std::unique_ptr<OtherMachines> others = other_machines(options, leader, member, ranks);
//   while (num_running > 0 || others->is_awaited()) {
//     poll(own descriptors and those of others->watch(), until others->due());
//     others->hear();
//   }
//
// Three implementations: one machine has no other launchers (OtherMachines itself); machine 0 decides for all machines
// (LedMachines); another machine asks machine 0 (LeadingMachine). They use this machine's ranks through OwnRanks, which
// Attempt implements. Invariant: no function waits. Local; not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

#include "app/launch/failure_report.h"
#include "app/launch/machines/machine_leader.h"
#include "app/launch/machines/machine_member.h"
#include "app/launch/ranks/launch_options.h"

namespace zero {

// When the ranks of an attempt are told to end.
struct AttemptEnd {
  using Clock = std::chrono::steady_clock;

  int stop_signal = 0;                           // the signal that told the launcher to stop; 0: none
  bool told = false;                             // the ranks were told to end after a failure
  std::optional<Clock::time_point> failed_at{};  // time of the first failure
  std::optional<Clock::time_point> next{};       // when the ranks will be told to end, or killed

  bool has_begun() const { return told || stop_signal != 0; }
  // Notes the first failure. `wait`: until the ranks are told to end.
  void fail(std::chrono::milliseconds wait) {
    failed_at = Clock::now();
    next = *failed_at + wait;
  }
};

// The ranks of this machine. A local rank is the number of a rank on its machine.
class OwnRanks {
 public:
  virtual AttemptEnd& ending() = 0;
  virtual int num_running() const = 0;
  virtual double seconds() const = 0;  // since the attempt's start
  virtual const std::vector<RankEnd>& ends() const = 0;
  // Returns whether ranks run that may not fail.
  virtual bool has_needed_ranks() const = 0;
  // Returns whether a rank that failed can be started again: the attempt is not ending.
  virtual bool takes_back() const = 0;
  // Returns kAgain or kNoMore for a rank of any machine whose process ran for `lived`.
  virtual MachineMessage decide(int rank, std::chrono::milliseconds lived) = 0;
  // Starts the rank again after the pause of `again`. `how`: how it ended.
  virtual void replace(std::size_t local_rank, const std::string& how, const MachineMessage& again) = 0;
  virtual bool has_planned_replacements() const = 0;
  virtual void drop_planned_replacements() = 0;
  // Reads all that an ended rank printed, and returns its last words as lines.
  virtual std::string last_words(std::size_t local_rank) = 0;
  virtual void say(std::string_view text) = 0;

 protected:
  ~OwnRanks() = default;
};

class OtherMachines {
 public:
  OtherMachines(const LaunchOptions& options, OwnRanks& ranks) : options_(options), ranks_(ranks) {}
  virtual ~OtherMachines() = default;
  OtherMachines(const OtherMachines&) = delete;
  OtherMachines& operator=(const OtherMachines&) = delete;

  // Return what to poll, and until when at most.
  virtual std::vector<pollfd> watch() const { return {}; }
  virtual std::optional<AttemptEnd::Clock::time_point> due() const { return {}; }
  // Handles messages that have arrived, and questions that are due.
  virtual void hear() {}
  // Returns whether the attempt lasts although no rank of this machine is left.
  virtual bool is_awaited() const { return false; }
  // Returns whether another machine may report the cause of a failure after all own ranks have ended.
  virtual bool may_explain_failures() const { return false; }
  // Returns whether ranks of any machine are left that can take a replacement back.
  virtual bool has_peers() const { return ranks_.has_needed_ranks(); }

  // A failure ends the attempt on all machines.
  virtual void report_failure(const RankEnd& /*end*/, std::size_t /*local_rank*/) {}
  virtual void report_not_started(int /*rank*/, const std::string& /*reason*/) {}
  // A rank that may fail has failed, and its process ran for `lived`. Replaces it, or asks whether to.
  virtual void replace(std::size_t local_rank, const RankEnd& end, std::chrono::milliseconds lived);

  // Returns failures that other machines reported.
  const std::vector<RankEnd>& failures() const { return failures_; }
  // Returns the message of machine 0's launcher about the end of the attempt.
  const std::optional<MachineMessage>& over() const { return over_; }

 protected:
  const LaunchOptions& options_;
  OwnRanks& ranks_;
  std::vector<RankEnd> failures_;
  std::optional<MachineMessage> over_;
};

// At most one of `leader` and `member` is set; both null: no other launchers.
std::unique_ptr<OtherMachines> other_machines(const LaunchOptions& options, MachineLeader* leader,
                                              MachineMember* member, OwnRanks& ranks);

}  // namespace zero
