#include "app/launch/launch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <signal.h>

#include "zero/base/error/check.h"
#include "zero/base/error/exit_status.h"
#include "zero/base/process/descriptor_limit.h"
#include "zero/base/text/bytes.h"

#include "app/launch/attempt.h"
#include "app/launch/failure_report.h"
#include "app/launch/flight_records.h"
#include "app/launch/machines/machine_leader.h"
#include "app/launch/machines/machine_member.h"
#include "app/launch/restart_policy.h"

namespace zero {
namespace {

// Descriptors of this process, with the temporary ones of a rank's start, and of each rank: two pipes and a socket.
constexpr std::size_t kOwnDescriptors = 64;
constexpr std::size_t kDescriptorsOfARank = 3;

// Most time for launchers of other machines to end their ranks.
constexpr std::chrono::seconds kOthersEnd{10};

std::size_t room_for_names(const DescriptorLimit& descriptors, int ranks) {
  return descriptors.room_for(MemoryFiles::kMostNames,
                              kOwnDescriptors + kDescriptorsOfARank * static_cast<std::size_t>(ranks));
}

std::optional<std::int64_t> reached_by(const LaunchOptions& options, const MemoryFiles& kept) {
  // A launcher knows only its own machine's ranks, and the launchers of several machines must all decide alike.
  if (!options.progress) return options.nodes == 1 ? furthest_step(kept) : std::nullopt;
  try {
    return options.progress(kept);
  } catch (const IoError&) {
    return 0;
  }
}

// Returns lines about a failure, beside the name of the rank that failed.
std::string failure_lines(const LaunchOptions& options, const MemoryFiles& kept, const Attempt& attempt,
                          int generation) {
  // After a request to stop, only killed ranks are of interest: they could not stop.
  const auto was_killed = [](const RankEnd& end) { return end.end.signal == SIGKILL; };
  if (!options.after_failure || attempt.all_ended_well()) return "";
  if (attempt.stop_signal() != 0 && std::ranges::none_of(attempt.ends(), was_killed)) return "";
  try {
    return options.after_failure(kept, attempt.ends(), generation);
  } catch (const std::exception& error) {
    return fmt::format("zero launch: {}\n", error.what());
  }
}

Failure failure_of(const Attempt& attempt, const LaunchOptions& options, const MemoryFiles& kept) {
  if (attempt.not_started())
    return {.local_rank = attempt.not_started()->local_rank,
            .not_started = true,
            .status = kIoFailedStatus,
            .step = reached_by(options, kept)};
  const RankEnd* suspect = find_suspect(attempt.ends());
  return {.local_rank = suspect == nullptr ? -1 : suspect->rank - options.node_rank * options.ranks,
          .status = exit_status(*find_culprit(attempt.ends())),
          .step = reached_by(options, kept)};
}

// Finds the largest world of at most `most` ranks that can hold the run; nullopt: none can. `said` gets the reasons
// against larger worlds.
std::optional<WorldProgram> find_smaller(LaunchOptions& options, int most, const LaunchOptions& asked,
                                         std::string& said) {
  for (int ranks = most; ranks >= asked.min_ranks; --ranks) {
    try {
      WorldProgram program{.words = asked.program, .change = {}};
      if (asked.program_for) program = asked.program_for(ranks);
      options.ranks = ranks;
      options.program = program.words;
      if (!asked.program_for) options.asked_ranks = asked.ranks;
      // If no rank with shown output is left, the output of all ranks is shown.
      std::erase_if(options.shown_ranks, [ranks](int rank) { return rank >= ranks; });
      return program;
    } catch (const ConfigError& error) {
      said += fmt::format("zero launch: not with {}: {}\n", format_count(ranks, "rank"), error.what());
    }
  }
  return std::nullopt;
}

std::string report_of(const Attempt& attempt, const LaunchOptions& options) {
  const int world = options.nodes * options.ranks;
  if (!attempt.not_started()) return failure_report(attempt.ends(), world);
  return fmt::format("zero launch: rank {} of {} could not be started: {}\n",
                     options.node_rank * options.ranks + attempt.not_started()->local_rank, world,
                     attempt.not_started()->error.what());
}

// Returns whether the rank was asked to save and end, and could not save.
bool failed_to_save(const RankEnd& culprit) {
  return culprit.end.exit_code == 128 + SIGUSR1 || culprit.end.signal == SIGUSR1;
}

// Returns the status of an attempt that no rank's failure ended; nullopt: a failure ended it.
std::optional<int> status_without_failure(const Attempt& attempt) {
  if (attempt.stop_signal() != 0) return attempt.all_ended_well() ? 0 : 128 + attempt.stop_signal();
  const RankEnd* culprit = find_culprit(attempt.ends());
  if (culprit == nullptr && !attempt.not_started()) return 0;
  if (culprit != nullptr && failed_to_save(*culprit)) return 128 + SIGUSR1;
  return std::nullopt;
}

// Returns the status with which the launch ends, or nullopt, and then `options` are those of the next attempt. `told`:
// further lines about a failure.
std::optional<int> end_or_next(Attempt& attempt, const MemoryFiles& kept, const LaunchOptions& asked,
                               LaunchOptions& options, RestartPolicy& policy, const std::string& told) {
  if (const std::optional<int> status = status_without_failure(attempt)) {
    attempt.show_last_words();
    attempt.say(told);
    return status;
  }

  const Failure failure = failure_of(attempt, options, kept);
  const NextAttempt next = policy.after(failure, options.ranks);
  if (next.kind == NextAttempt::Kind::kEnd && attempt.not_started()) {
    attempt.show_last_words();
    attempt.say(told);
    attempt.show();
    throw attempt.not_started()->error;
  }
  std::string said = report_of(attempt, options) + told;
  std::optional<int> status;
  const std::string count = fmt::format("({} of {})", policy.restarts(), asked.max_restarts);
  switch (next.kind) {
    case NextAttempt::Kind::kEnd:
      if (!next.reason.empty()) said += fmt::format("zero launch: {}: not started again\n", next.reason);
      status = failure.status;
      break;
    case NextAttempt::Kind::kStartAgain:
      said += fmt::format("zero launch: starting all ranks again {}\n", count);
      break;
    case NextAttempt::Kind::kFewer:
      if (const auto program = find_smaller(options, next.most_ranks, asked, said)) {
        said += fmt::format("zero launch: continuing with {} of {} ranks {}: {}{}{}\n", options.ranks, asked.ranks,
                            count, next.reason, program->change.empty() ? "" : "; ", program->change);
      } else {
        said += fmt::format("zero launch: {}, and this run cannot continue with fewer ranks: not started again\n",
                            next.reason);
        status = failure.status;
      }
      break;
  }
  attempt.say(said);
  return status;
}

// ---- several machines whose ranks may fail (machine_messages.h) ----------------------------------------------------

// Makes machine 0's message to the other machines about the end of an attempt.
MachineMessage outcome_of(const std::optional<int>& status, const Attempt& attempt, const LaunchOptions& options,
                          const RestartPolicy& policy) {
  std::string text = status == 0 ? "" : report_of(attempt, options);
  if (attempt.stop_signal() != 0) text = "zero launch: the launcher of machine 0 received a signal to stop\n";
  return {.kind = MachineMessage::Kind::kOver,
          .used = policy.restarts(),
          .left = policy.left(),
          .status = status.value_or(MachineMessage::kAllAgain),
          .text = text.substr(0, text.find('\n') + 1)};
}

// Makes another machine's message to machine 0 about the end of its ranks.
MachineMessage end_of(const Attempt& attempt, int machine) {
  const bool stopped = attempt.stop_signal() != 0;
  return {.kind = MachineMessage::Kind::kEnded,
          .status = attempt.all_ended_well() ? 0 : kRankFailedStatus,
          .text = stopped ? fmt::format("machine {}: its launcher received a signal to stop\n", machine) : ""};
}

// Like end_or_next(), if machine 0's launcher is lost.
std::optional<int> end_or_look_again(const std::string& lost, const LaunchOptions& asked, RestartPolicy& policy,
                                     std::string& said) {
  said += fmt::format("zero launch: {}\n", lost);
  if (policy.after({}, asked.ranks).kind == NextAttempt::Kind::kEnd) return kRankFailedStatus;
  said += fmt::format("zero launch: starting all ranks again ({} of {})\n", policy.restarts(), asked.max_restarts);
  return std::nullopt;
}

// Like end_or_next(), on another machine than machine 0.
std::optional<int> end_or_follow(Attempt& attempt, const MachineMember& member, const LaunchOptions& asked,
                                 RestartPolicy& policy, const std::string& told) {
  const RankEnd* culprit = find_culprit(attempt.ends());
  if (attempt.stop_signal() != 0 || (culprit == nullptr && !attempt.not_started())) attempt.show_last_words();
  if (attempt.stop_signal() != 0) {
    attempt.say(told);
    return attempt.all_ended_well() ? 0 : 128 + attempt.stop_signal();
  }
  std::string said = report_of(attempt, asked) + told;
  std::optional<int> status;
  if (!attempt.over()) {
    if (attempt.each_did_its_part()) return 0;
    status = end_or_look_again(member.lost(), asked, policy, said);
  } else {
    const MachineMessage& over = *attempt.over();
    said += over.text;
    if (over.status == MachineMessage::kAllAgain)
      said += fmt::format("zero launch: starting all ranks again ({} of {})\n", over.used, over.used + over.left);
    else
      status = over.status == 0 && culprit != nullptr ? exit_status(*culprit) : over.status;
  }
  attempt.say(said);
  return status;
}

// Returns the run's name, which must be the same in all launchers. Without a name from the user, it is the address and
// port at which the ranks meet.
std::string run_id_of(const LaunchOptions& options) {
  if (options.nodes == 1) return random_id();
  if (!options.run_name.empty()) return options.run_name;
  return fmt::format("{}-{}", options.master_address, options.master_port);
}

}  // namespace

int launch(const LaunchOptions& asked) {
  ZERO_CHECK(!asked.program.empty() && asked.ranks >= 1 && asked.node_rank < asked.nodes);
  ZERO_CHECK(asked.min_ranks <= asked.ranks && (asked.min_ranks == 0 || asked.nodes == 1));
  const std::string base_id = run_id_of(asked), launch_id = random_id();
  SignalInbox inbox;
  OrphanGuard guard;
  const DescriptorLimit descriptors;
  MemoryServer memory(room_for_names(descriptors, asked.ranks));
  RestartPolicy policy(asked.max_restarts, asked.min_ranks);
  LaunchOptions options = asked;  // options of this attempt
  std::optional<MachineLeader> leader;
  std::optional<MachineMember> member;
  if (asked.nodes > 1 && asked.spared_from >= 0) {
    const MachineMeeting meeting = machine_meeting(asked, base_id);
    asked.node_rank == 0 ? void(leader.emplace(meeting, asked.nodes)) : void(member.emplace(meeting, asked));
  }
  for (int generation = 0;; ++generation) {
    int most_replacements = options.spared_from >= 0 ? policy.left() : 0;
    if (member) {
      const MachineMember::Turn turn = member->await_begin(inbox);
      if (turn.signal != 0) return 128 + turn.signal;
      if (!turn.message) {
        std::string said;
        const std::optional<int> status = end_or_look_again(turn.lost, asked, policy, said);
        fmt::print(stderr, "{}", said);
        if (status) return *status;
        continue;
      }
      if (turn.message->kind == MachineMessage::Kind::kOver) {
        fmt::print(stderr, "{}", turn.message->text);
        return turn.message->status;
      }
      generation = turn.message->generation;
      most_replacements = turn.message->left;
    }
    // The launcher of another machine may itself have been restarted, and then counts other attempts.
    const bool same_id = generation == 0 || asked.nodes > 1;
    const RunIdentity identity{.run_id = same_id ? base_id : fmt::format("{}-{}", base_id, generation),
                               .master_port = options.master_port != 0 ? options.master_port : free_port(),
                               .generation = generation,
                               .token = random_token(options, std::getenv),
                               .most_replacements = most_replacements,
                               .launch_id = launch_id};
    for (const std::string& name : memory.files().names())
      if (name.starts_with(kFlightNames) || name.find(kUnfinishedNames) != std::string::npos)
        memory.files().remove(name);
    if (leader) leader->begin(generation, most_replacements);
    Attempt attempt(options, {inbox, guard, memory, descriptors.before(), leader ? &*leader : nullptr,
                              member ? &*member : nullptr});
    attempt.run(identity);
    policy.count_replacements(attempt.num_replacements());
    const std::string told = failure_lines(options, memory.files(), attempt, generation);
    if (member) member->say(end_of(attempt, asked.node_rank));
    const std::optional<int> status = member ? end_or_follow(attempt, *member, asked, policy, told)
                                             : end_or_next(attempt, memory.files(), asked, options, policy, told);
    if (leader) {
      leader->end(outcome_of(status, attempt, options, policy), kOthersEnd);
      attempt.say(leader->news());
    }
    const int signal = attempt.show();
    if (status) return *status;
    if (signal != 0) return 128 + signal;
  }
}

}  // namespace zero
