#include "app/launch/other_machines.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <signal.h>

#include "zero/base/error/exit_status.h"

namespace zero {
namespace {

using Says = MachineMessage::Kind;
using Clock = AttemptEnd::Clock;

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void take_earlier(std::optional<Clock::time_point>& first, Clock::time_point due) {
  first = first ? std::min(*first, due) : due;
}

// The machines that machine 0's launcher leads.
class LedMachines final : public OtherMachines {
 public:
  LedMachines(const LaunchOptions& options, MachineLeader& leader, OwnRanks& ranks)
      : OtherMachines(options, ranks), leader_(leader) {}

  std::vector<pollfd> watch() const override { return leader_.watched(); }
  std::optional<Clock::time_point> due() const override;
  void hear() override;
  bool is_awaited() const override;
  bool may_explain_failures() const override { return true; }

 private:
  struct Question {
    int number = 0;
    Clock::time_point due, until;  // of the answer; of the wait for other launchers
    MachineMessage asked;
    std::vector<int> awaited{};  // machines whose answers are awaited
  };

  void ask_about(MachineMessage lost);
  void answer_questions();
  void note_failure(RankEnd end);

  MachineLeader& leader_;
  int num_questions_ = 0;
  std::vector<Question> questions_;
};

std::optional<Clock::time_point> LedMachines::due() const {
  std::optional<Clock::time_point> first = leader_.due();
  for (const Question& question : questions_)
    take_earlier(first, question.awaited.empty() ? question.due : question.until);
  return first;
}

void LedMachines::hear() {
  for (const Question& question : questions_) {
    if (Clock::now() < question.until) continue;
    for (const int machine : question.awaited) leader_.give_up(machine, options_.answer / 2);
  }
  for (MachineMessage& said : leader_.hear()) {
    if (said.kind == Says::kLost) {
      ask_about(std::move(said));
    } else if (said.kind == Says::kAlive) {
      for (Question& question : questions_)
        if (question.number == said.number) std::erase(question.awaited, said.machine);
    } else if (said.kind == Says::kFailed) {
      note_failure({.rank = said.rank,
                    .end = {.exit_code = said.number == 0 ? said.status : 0, .signal = said.number},
                    .last_words = lines_in(said.text)});
    } else if (said.status != 0 && options_.is_needed(said.machine)) {
      // If a launcher is gone, it or its guard has killed its ranks.
      note_failure(
          {.rank = said.machine * options_.ranks, .end = {.signal = SIGKILL}, .last_words = lines_in(said.text)});
    }
  }
  answer_questions();
  if (const std::string news = leader_.news(); !news.empty()) ranks_.say(news);
}

void LedMachines::note_failure(RankEnd end) {
  AttemptEnd& ending = ranks_.ending();
  end.ended_by_us = ending.has_begun();
  end.seconds = ranks_.seconds();
  failures_.push_back(std::move(end));
  if (!ending.next && failures_.back().failed()) ending.fail(options_.witness);
}

void LedMachines::ask_about(MachineMessage lost) {
  const auto now = Clock::now();
  Question question{++num_questions_, now + options_.witness, now + options_.answer / 2, std::move(lost)};
  for (int machine = 1; machine < options_.nodes; ++machine) {
    if (!options_.is_needed(machine) || !leader_.takes_part(machine)) continue;
    question.awaited.push_back(machine);
    leader_.say(machine, {.kind = Says::kCheck, .number = question.number});
  }
  questions_.push_back(std::move(question));
}

void LedMachines::answer_questions() {
  const auto now = Clock::now();
  const auto is_due = [&](Question& question) {
    std::erase_if(question.awaited, [&](int machine) { return !leader_.takes_part(machine); });
    return now >= question.due && question.awaited.empty();
  };
  const auto open = std::stable_partition(questions_.begin(), questions_.end(), is_due);
  std::vector<Question> due(std::make_move_iterator(questions_.begin()), std::make_move_iterator(open));
  questions_.erase(questions_.begin(), open);
  for (const Question& question : due) {
    const MachineMessage& asked = question.asked;
    const MachineMessage decision = ranks_.decide(asked.rank, std::chrono::milliseconds(asked.ms));
    if (decision.kind == Says::kAgain)
      ranks_.say(fmt::format("zero launch: rank {} on machine {} failed with {}: {}\n", asked.rank, asked.machine,
                             asked.text, starting_alone(decision)));
    leader_.say(asked.machine, decision);
  }
}

// Waits for failures on other machines. A rank that lost a peer can end before the launcher receives the reason:
// another machine's rank refused its configuration.
bool LedMachines::is_awaited() const {
  const AttemptEnd& ending = ranks_.ending();
  if (!ending.failed_at || ending.stop_signal != 0) return false;
  std::vector<RankEnd> ends = ranks_.ends();
  ends.insert(ends.end(), failures_.begin(), failures_.end());
  const RankEnd* const culprit = find_culprit(ends);
  const bool is_witness = culprit != nullptr && culprit->end.signal == 0 && culprit->end.exit_code == kRankFailedStatus;
  return is_witness && Clock::now() < *ending.failed_at + options_.witness;
}

// Machine 0, whose launcher leads this machine.
class LeadingMachine final : public OtherMachines {
 public:
  LeadingMachine(const LaunchOptions& options, MachineMember& member, OwnRanks& ranks)
      : OtherMachines(options, ranks), member_(member) {}

  std::vector<pollfd> watch() const override { return {{member_.fd(), POLLIN, 0}}; }
  std::optional<Clock::time_point> due() const override;
  void hear() override;
  // After all ranks have ended, machine 0's launcher decides whether they start again.
  bool is_awaited() const override { return has_peers() && ranks_.ending().stop_signal == 0; }
  bool has_peers() const override { return member_.lost().empty() && !over_; }
  void report_failure(const RankEnd& end, std::size_t local_rank) override;
  void report_not_started(int rank, const std::string& reason) override;
  void replace(std::size_t local_rank, const RankEnd& end, std::chrono::milliseconds lived) override;

 private:
  struct Asked {
    Clock::time_point until;
    std::string how;  // how the rank ended
  };
  struct Check {
    Clock::time_point due;
    int number = 0;
  };

  void take_answer(const MachineMessage& said);
  void answer_checks();
  void end_for_leader();

  MachineMember& member_;
  std::map<std::size_t, Asked> asked_;  // by local rank
  std::vector<Check> checks_;
};

std::optional<Clock::time_point> LeadingMachine::due() const {
  std::optional<Clock::time_point> first;
  for (const auto& [local_rank, asked] : asked_) take_earlier(first, asked.until);
  for (const Check& check : checks_) take_earlier(first, check.due);
  return first;
}

void LeadingMachine::hear() {
  for (const MachineMessage& said : member_.hear()) {
    if (said.kind == Says::kOver) {
      over_ = said;
      asked_.clear();
      checks_.clear();
      if (said.status != 0) end_for_leader();
    } else if (said.kind == Says::kCheck) {
      checks_.push_back({Clock::now() + options_.witness, said.number});
    } else {
      take_answer(said);
    }
  }
  const bool late =
      std::ranges::any_of(asked_, [now = Clock::now()](const auto& each) { return now >= each.second.until; });
  if (late) member_.give_up(options_.answer);
  answer_checks();
  if (!member_.lost().empty()) end_for_leader();
}

// Takes kAgain or kNoMore for a rank that has failed.
void LeadingMachine::take_answer(const MachineMessage& said) {
  const int first = options_.node_rank * options_.ranks;
  const auto asked = asked_.find(static_cast<std::size_t>(said.rank - first));
  if (asked == asked_.end()) return;
  if (said.kind == Says::kAgain && ranks_.takes_back()) ranks_.replace(asked->first, asked->second.how, said);
  asked_.erase(asked);
  const bool none_left = ranks_.num_running() == 0 && asked_.empty() && !ranks_.has_planned_replacements();
  if (said.kind == Says::kNoMore && none_left)
    ranks_.say("zero launch: no rank is left on this machine: it waits for the end of the other machines\n");
}

// Sends kAlive for the checks that are due, unless a rank has failed: then kFailed was sent before.
void LeadingMachine::answer_checks() {
  const auto is_due = [now = Clock::now()](const Check& check) { return now >= check.due; };
  for (const Check& check : checks_)
    if (is_due(check) && !ranks_.ending().next) member_.say({.kind = Says::kAlive, .number = check.number});
  std::erase_if(checks_, is_due);
}

void LeadingMachine::end_for_leader() {
  asked_.clear();
  checks_.clear();
  ranks_.drop_planned_replacements();
  if (!ranks_.ending().next && ranks_.num_running() > 0) ranks_.ending().fail(options_.witness);
}

void LeadingMachine::report_failure(const RankEnd& end, std::size_t local_rank) {
  member_.say({.kind = Says::kFailed,
               .rank = end.rank,
               .number = end.end.signal,
               .status = exit_status(end),
               .text = ranks_.last_words(local_rank)});
}

void LeadingMachine::report_not_started(int rank, const std::string& reason) {
  member_.say({.kind = Says::kFailed, .rank = rank, .status = kIoFailedStatus, .text = reason});
}

void LeadingMachine::replace(std::size_t local_rank, const RankEnd& end, std::chrono::milliseconds lived) {
  asked_[local_rank] = {Clock::now() + options_.answer, describe(end.end)};
  member_.say({.kind = Says::kLost, .rank = end.rank, .ms = lived.count(), .text = describe(end.end)});
}

}  // namespace

void OtherMachines::replace(std::size_t local_rank, const RankEnd& end, std::chrono::milliseconds lived) {
  const MachineMessage decision = ranks_.decide(end.rank, lived);
  if (decision.kind == MachineMessage::Kind::kAgain) ranks_.replace(local_rank, describe(end.end), decision);
}

std::unique_ptr<OtherMachines> other_machines(const LaunchOptions& options, MachineLeader* leader,
                                              MachineMember* member, OwnRanks& ranks) {
  if (leader != nullptr) return std::make_unique<LedMachines>(options, *leader, ranks);
  if (member != nullptr) return std::make_unique<LeadingMachine>(options, *member, ranks);
  return std::make_unique<OtherMachines>(options, ranks);
}

}  // namespace zero
