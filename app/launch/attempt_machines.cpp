// Attempt on several machines: messages from other launchers to machine 0's launcher, and its answers
// (machine_messages.h).
#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <signal.h>

#include "zero/base/error/exit_status.h"

#include "app/launch/attempt.h"

namespace zero {
namespace {

using Says = MachineMessage::Kind;

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void Attempt::hear_machines() {
  if (launcher_.leader != nullptr) hear_members();
  if (launcher_.member != nullptr) hear_leader();
}

std::optional<Attempt::Clock::time_point> Attempt::machines_due() const {
  std::optional<Clock::time_point> first = launcher_.leader != nullptr ? launcher_.leader->due() : std::nullopt;
  const auto take = [&first](Clock::time_point due) { first = first ? std::min(*first, due) : due; };
  for (const Question& question : questions_) take(question.awaited.empty() ? question.due : question.until);
  for (const auto& [place, asked] : asked_) take(asked.until);
  for (const Check& check : checks_) take(check.due);
  return first;
}

// ---- on machine 0 -------------------------------------------------------------------------------------------------

void Attempt::hear_members() {
  MachineLeader& leader = *launcher_.leader;
  for (const Question& question : questions_) {
    if (Clock::now() < question.until) continue;
    for (const int machine : question.awaited) leader.give_up(machine, options_.answer / 2);
  }
  for (MachineMessage& said : leader.hear()) {
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
  if (const std::string news = leader.news(); !news.empty()) output_.say(news);
}

void Attempt::note_failure(RankEnd end) {
  end.ended_by_us = told_to_end_ || stop_signal_ != 0;
  end.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  failed_elsewhere_.push_back(std::move(end));
  if (next_end_ || !failed_elsewhere_.back().failed()) return;
  failed_at_ = Clock::now();
  next_end_ = *failed_at_ + options_.witness;
}

void Attempt::ask_about(MachineMessage lost) {
  MachineLeader& leader = *launcher_.leader;
  const auto now = Clock::now();
  Question question{++num_questions_, now + options_.witness, now + options_.answer / 2, std::move(lost)};
  for (int machine = 1; machine < options_.nodes; ++machine) {
    if (!options_.is_needed(machine) || !leader.takes_part(machine)) continue;
    question.awaited.push_back(machine);
    leader.say(machine, {.kind = Says::kCheck, .number = question.number});
  }
  questions_.push_back(std::move(question));
}

void Attempt::answer_questions() {
  MachineLeader& leader = *launcher_.leader;
  const auto now = Clock::now();
  const auto is_due = [&](Question& question) {
    std::erase_if(question.awaited, [&](int machine) { return !leader.takes_part(machine); });
    return now >= question.due && question.awaited.empty();
  };
  const auto open = std::stable_partition(questions_.begin(), questions_.end(), is_due);
  std::vector<Question> due(std::make_move_iterator(questions_.begin()), std::make_move_iterator(open));
  questions_.erase(questions_.begin(), open);
  for (const Question& question : due) {
    const MachineMessage& asked = question.asked;
    const MachineMessage decision = decide(asked.rank, std::chrono::milliseconds(asked.ms));
    if (decision.kind == Says::kAgain)
      output_.say(fmt::format("zero launch: rank {} on machine {} failed with {}: {}\n", asked.rank, asked.machine,
                              asked.text, starting_alone(decision)));
    leader.say(asked.machine, decision);
  }
}

// Returns whether to wait for failures on other machines. A rank that lost a peer can end before the launcher receives
// the reason: another machine's rank refused its configuration.
bool Attempt::awaits_members() const {
  if (launcher_.leader == nullptr || !failed_at_ || stop_signal_ != 0) return false;
  std::vector<RankEnd> ends = ends_;
  ends.insert(ends.end(), failed_elsewhere_.begin(), failed_elsewhere_.end());
  const RankEnd* const culprit = find_culprit(ends);
  const bool is_witness = culprit != nullptr && culprit->end.signal == 0 && culprit->end.exit_code == kRankFailedStatus;
  return is_witness && Clock::now() < *failed_at_ + options_.witness;
}

// ---- on another machine -------------------------------------------------------------------------------------------

// Returns whether to wait for machine 0's launcher. After all ranks have ended, it decides whether they start again.
bool Attempt::awaits_leader() const {
  return launcher_.member != nullptr && !over_ && launcher_.member->lost().empty() && stop_signal_ == 0;
}

void Attempt::hear_leader() {
  MachineMember& member = *launcher_.member;
  for (const MachineMessage& said : member.hear()) {
    if (said.kind == Says::kOver) {
      over_ = said;
      asked_.clear();
      checks_.clear();
      if (said.status != 0) end_for_leader();
      continue;
    }
    if (said.kind == Says::kCheck) {
      checks_.push_back({Clock::now() + options_.witness, said.number});
      continue;
    }
    const auto asked = std::ranges::find_if(asked_, [&](const auto& each) { return rank_of(each.first) == said.rank; });
    if (asked == asked_.end()) continue;
    if (said.kind == Says::kAgain && takes_back()) replace(asked->first, asked->second.how, said);
    asked_.erase(asked);
    if (said.kind == Says::kNoMore && num_running_ == 0 && asked_.empty() && replacement_due_.empty())
      output_.say("zero launch: no rank is left on this machine: it waits for the end of the other machines\n");
  }
  const bool late =
      std::ranges::any_of(asked_, [now = Clock::now()](const auto& each) { return now >= each.second.until; });
  if (late) member.give_up(options_.answer);
  answer_checks();
  if (!member.lost().empty()) end_for_leader();
}

// Sends kAlive for the checks that are due, unless a rank has failed: then kFailed was sent before.
void Attempt::answer_checks() {
  const auto is_due = [now = Clock::now()](const Check& check) { return now >= check.due; };
  for (const Check& check : checks_)
    if (is_due(check) && !next_end_) launcher_.member->say({.kind = Says::kAlive, .number = check.number});
  std::erase_if(checks_, is_due);
}

void Attempt::end_for_leader() {
  asked_.clear();
  checks_.clear();
  replacement_due_.clear();
  if (next_end_ || num_running_ == 0) return;
  failed_at_ = Clock::now();
  next_end_ = *failed_at_ + options_.witness;
}

// Reports a failure that ends the attempt on all machines.
void Attempt::tell_failure(const RankEnd& end, std::size_t place) {
  if (launcher_.member == nullptr) return;
  read_all_of(place);
  std::string words;
  for (const std::string& line : output_.last_words(place)) words += line + "\n";
  launcher_.member->say({.kind = Says::kFailed,
                         .rank = end.rank,
                         .number = end.end.signal,
                         .status = exit_status(end),
                         .text = std::move(words)});
}

}  // namespace zero
