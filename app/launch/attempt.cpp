#include "app/launch/attempt.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/error/exit_status.h"

#include "app/launch/flight_records.h"
#include "app/launch/ranks/cores.h"
#include "app/launch/ranks/last_words.h"

namespace zero {
namespace {

using Stream = RankOutput::Stream;

// The most time to wait for a reader that takes nothing, after a signal to stop.
constexpr std::chrono::milliseconds kReaderPatience{500};

std::vector<int> numbers(const LaunchOptions& options) {
  std::vector<int> out;
  for (int i = 0; i < options.ranks; ++i) out.push_back(options.node_rank * options.ranks + i);
  return out;
}

std::vector<bool> shown(const LaunchOptions& options) {
  std::vector<bool> out(static_cast<std::size_t>(options.ranks), options.shown_ranks.empty());
  for (const int rank : options.shown_ranks) out.at(static_cast<std::size_t>(rank)) = true;
  return out;
}

}  // namespace

Attempt::Attempt(const LaunchOptions& options, const Launcher& launcher)
    : options_(options),
      launcher_(launcher),
      cores_(allowed_cores()),
      shown_(shown(options)),
      output_(numbers(options), shown_),
      others_(other_machines(options, launcher.leader, launcher.member, *this)) {}

void Attempt::run(const RunIdentity& identity) {
  replacements_ = ReplacementPolicy(identity.most_replacements);
  start(identity);
  while (num_running_ > 0 || others_->is_awaited()) {
    wait_for_something();
    take_signals();
    launcher_.memory.serve();
    read_outputs();
    reap();
    others_->hear();
    end_replacements_without_peers();
    start_replacements(identity);
    end_after_failure();
    output_.flush(Clock::now());
  }
  launcher_.memory.disconnect();
  drain();
}

bool Attempt::all_ended_well() const {
  return !not_started_ && std::all_of(ends_.begin(), ends_.end(), [](const RankEnd& end) {
    return end.spared || (end.end.exit_code == 0 && end.end.signal == 0);
  });
}

bool Attempt::each_did_its_part() const {
  std::vector<bool> done(ranks_.size());
  for (std::size_t i = 0; i < ended_.size(); ++i)
    done[ended_[i]] = ends_[i].end.exit_code == 0 && ends_[i].end.signal == 0;
  return !not_started_ && std::ranges::find(done, false) == done.end();
}

void Attempt::start(const RunIdentity& identity) {
  for (int local_rank = 0; local_rank < options_.ranks; ++local_rank) {
    try {
      start_rank(local_rank, identity);
    } catch (const IoError& error) {
      // The other ranks would wait for this rank in vain.
      not_started_ = {local_rank, error};
      ending_.told = true;
      others_->report_not_started(rank_of(static_cast<std::size_t>(local_rank)),
                                  fmt::format("it could not be started: {}", error.what()));
      send_all(SIGKILL);
      return;
    }
    launcher_.memory.serve();
  }
}

void Attempt::start_rank(int local_rank, const RunIdentity& identity) {
  ranks_.push_back(start_process(local_rank, identity));
}

RankProcess Attempt::start_process(int local_rank, const RunIdentity& identity) {
  const bool first = local_rank == 0 && options_.node_rank == 0;
  std::vector<std::string> inherited;
  for (char** entry = environ; *entry != nullptr; ++entry) inherited.emplace_back(*entry);
  const FileDescriptor memory = launcher_.memory.connect();
  const auto number = numbers_.find(static_cast<std::size_t>(local_rank));
  Variables variables = rank_variables(options_, identity, local_rank, static_cast<int>(cores_.size()),
                                       number == numbers_.end() ? 0 : number->second);
  variables.emplace_back("ZERO_LAUNCHER_MEMORY", std::to_string(memory.get()));
  RankProcess process = RankProcess::start({
      .program = options_.program,
      .environment = merge_environment(inherited, variables),
      .cores = options_.bind_cores ? share_of_cores(cores_, local_rank, options_.ranks) : std::vector<int>{},
      .inherit_input = first && isatty(STDIN_FILENO) == 0,
      // On a terminal, rank 0 draws its own progress. Through a pipe it would not see the terminal.
      .inherit_output = first && shown_[static_cast<std::size_t>(local_rank)] && isatty(STDOUT_FILENO) != 0,
      .memory = memory.get(),
      .descriptors = launcher_.descriptors,
      .signal_mask = launcher_.inbox.before(),
  });
  launcher_.guard.watch(process.pid());
  started_at_[static_cast<std::size_t>(local_rank)] = Clock::now();
  ++num_running_;
  return process;
}

// ---- replacements -------------------------------------------------------------------------------------------------

bool Attempt::may_fail(std::size_t local_rank) const {
  return options_.spared_from >= 0 && rank_of(local_rank) >= options_.spared_from;
}

bool Attempt::has_needed_ranks() const {
  for (std::size_t local_rank = 0; local_rank < ranks_.size(); ++local_rank)
    if (!may_fail(local_rank) && ranks_[local_rank].running()) return true;
  return false;
}

void Attempt::plan_replacement(const RankEnd& end, std::size_t local_rank) {
  const bool failed = end.end.exit_code != 0 || end.end.signal != 0;
  if (!end.spared || !failed || !takes_back()) return;
  const auto lived = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_at_.at(local_rank));
  others_->replace(local_rank, end, lived);
}

bool Attempt::takes_back() const {
  return !ending_.has_begun() && !ending_.next && others_->has_peers();
}

MachineMessage Attempt::decide(int rank, std::chrono::milliseconds lived) {
  const std::optional<std::chrono::milliseconds> pause = takes_back() ? replacements_.after(rank, lived) : std::nullopt;
  if (!pause) return {.kind = MachineMessage::Kind::kNoMore, .rank = rank};
  return {.kind = MachineMessage::Kind::kAgain,
          .rank = rank,
          .ms = pause->count(),
          .number = replacements_.of(rank),
          .used = replacements_.used(),
          .left = replacements_.left()};
}

void Attempt::replace(std::size_t local_rank, const std::string& how, const MachineMessage& again) {
  replacement_due_[local_rank] = Clock::now() + std::chrono::milliseconds(again.ms);
  numbers_[local_rank] = again.number;
  read_all_of(local_rank);
  output_.show_last_words(local_rank, Clock::now());
  output_.say(fmt::format("zero launch: rank {} failed with {}: {}\n", again.rank, how, starting_alone(again)));
}

// Reads all that the rank printed before it ended. Its group is gone, so there is no later output.
void Attempt::read_all_of(std::size_t local_rank) {
  const auto read_all = [&](Stream stream, int fd) {
    while (fd >= 0 && output_.read_from(local_rank, stream, fd, Clock::now())) {
      if (pollfd more{fd, POLLIN, 0}; poll(&more, 1, 0) <= 0) break;
    }
  };
  read_all(Stream::kOutput, ranks_[local_rank].output());
  read_all(Stream::kErrors, ranks_[local_rank].errors());
}

void Attempt::start_replacements(const RunIdentity& identity) {
  for (auto due = replacement_due_.begin(); due != replacement_due_.end();) {
    if (Clock::now() < due->second) {
      ++due;
      continue;
    }
    const std::size_t local_rank = due->first;
    due = replacement_due_.erase(due);
    try {
      RankProcess process = start_process(static_cast<int>(local_rank), identity);
      std::destroy_at(&ranks_[local_rank]);
      std::construct_at(&ranks_[local_rank], std::move(process));
    } catch (const IoError& error) {
      output_.say(
          fmt::format("zero launch: rank {} could not be started again: {}\n", rank_of(local_rank), error.what()));
    }
  }
}

// Ends replacements if the run has ended or failed, because no rank takes them back.
void Attempt::end_replacements_without_peers() {
  if (numbers_.empty()) return;
  if (ending_.has_begun() || ending_.next) return replacement_due_.clear();
  if (others_->has_peers()) return;
  replacement_due_.clear();
  if (num_running_ > 0) ending_.fail(options_.farewell);
}

void Attempt::wait_for_something() {
  std::vector<pollfd> fds{{launcher_.inbox.fd(), POLLIN, 0}, {launcher_.memory.fd(), POLLIN, 0}};
  for (const int fd : output_.waiting()) fds.push_back({fd, POLLOUT, 0});
  std::ranges::copy(others_->watch(), std::back_inserter(fds));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const RankProcess& rank = ranks_[i];
    if (rank.output() >= 0 && output_.takes(i, Stream::kOutput)) fds.push_back({rank.output(), POLLIN, 0});
    if (rank.errors() >= 0 && output_.takes(i, Stream::kErrors)) fds.push_back({rank.errors(), POLLIN, 0});
  }
  std::optional<Clock::time_point> wake = output_.due();
  if (ending_.next && (!wake || *ending_.next < *wake)) wake = ending_.next;
  for (const auto& [local_rank, due] : replacement_due_)
    if (!wake || due < *wake) wake = due;
  if (const auto due = others_->due(); due && (!wake || *due < *wake)) wake = due;
  int timeout_ms = -1;
  if (wake) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake - Clock::now()).count();
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }
  poll(fds.data(), fds.size(), timeout_ms);
}

void Attempt::take_signals() {
  while (const int signal = launcher_.inbox.take()) {
    if (signal == SIGUSR1) {
      send_all(signal);
    } else {
      stop(signal);
    }
  }
  if (output_.reader_gone() && ending_.stop_signal == 0) {
    ending_.stop_signal = SIGPIPE;
    send_all(SIGTERM);
  }
}

void Attempt::stop(int signal) {
  send_all(ending_.stop_signal == 0 ? signal : SIGKILL);
  if (ending_.stop_signal == 0) ending_.stop_signal = signal;
}

void Attempt::read_outputs(bool all) {
  const auto now = Clock::now();
  const auto ended = [&](std::size_t i, Stream stream, int fd) {
    return fd >= 0 && (all || output_.takes(i, stream)) && !output_.read_from(i, stream, fd, now);
  };
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ended(i, Stream::kOutput, ranks_[i].output())) ranks_[i].close_output();
    if (ended(i, Stream::kErrors, ranks_[i].errors())) ranks_[i].close_errors();
  }
}

void Attempt::reap() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const pid_t pid = ranks_[i].pid();
    const auto end = ranks_[i].reap();
    if (!end) continue;
    launcher_.guard.forget(pid);
    --num_running_;
    ended_.push_back(i);
    ends_.push_back({.rank = rank_of(i),
                     .end = *end,
                     .ended_by_us = ending_.has_begun(),
                     .spared = may_fail(i) && end->exit_code != kBadInputStatus,
                     .seconds = seconds(),
                     .lost = lost_by(rank_of(i), launcher_.memory.files())});
    // Asked to stop, ranks may take their time to save; one that crashes then ends it for all.
    const bool crashed = ending_.stop_signal != 0 && end->signal != 0 && end->signal != ending_.stop_signal;
    const bool others_run = num_running_ > 0 || others_->may_explain_failures();
    if ((ends_.back().failed() || crashed) && !ending_.next && others_run) ending_.fail(options_.witness);
    if (ends_.back().failed()) others_->report_failure(ends_.back(), i);
    plan_replacement(ends_.back(), i);
  }
}

void Attempt::end_after_failure() {
  if (!ending_.next || Clock::now() < *ending_.next) return;
  if (!ending_.has_begun() && someone_is_leaving()) {
    ending_.next = Clock::now() + options_.witness;
    return;
  }
  send_all(ending_.told ? SIGKILL : SIGTERM);
  ending_.told = true;
  ending_.next = Clock::now() + options_.grace;
}

// Returns whether a rank is still running although its peers saw it leave, and ended because of that. It is unwinding
// from the error that is the cause.
bool Attempt::someone_is_leaving() const {
  if (Clock::now() >= *ending_.failed_at + options_.farewell) return false;
  for (std::size_t i = 0; i < ended_.size(); ++i) {
    const std::vector<std::string> words = output_.last_words(ended_[i]);
    const std::optional<FlightLoss>& lost = ends_[i].lost;
    const int left =
        lost && lost->left ? lost->rank : rank_that_left(words.empty() ? output_.last_error(ended_[i]) : words.front());
    const int local_rank = left - options_.node_rank * options_.ranks;
    const bool ours = left >= 0 && local_rank >= 0 && local_rank < options_.ranks;
    if (ours && std::ranges::count(ended_, static_cast<std::size_t>(local_rank)) == 0) return true;
  }
  return false;
}

// Reads the ranks' last output from the pipes. The ranks and their groups are gone.
void Attempt::drain() {
  const auto deadline = Clock::now() + std::chrono::milliseconds(200);
  const auto open = [&] {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const auto& rank) { return rank.output() >= 0 || rank.errors() >= 0; });
  };
  read_outputs(/*all=*/true);
  while (open() && Clock::now() < deadline) {
    poll(nullptr, 0, 1);
    read_outputs(/*all=*/true);
  }
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    RankEnd& end = ends_[i];
    end.last_lines = output_.last_lines(ended_[i]);
    end.last_words = output_.last_words(ended_[i]);
    end.last_error = output_.last_error(ended_[i]);
    end.shown = output_.shown(ended_[i]);
    // The failure report is about other ranks.
    if (end.end.exit_code == 0 && end.end.signal == 0) output_.show_last_words(ended_[i], Clock::now());
  }
  ends_.insert(ends_.end(), others_->failures().begin(), others_->failures().end());
  output_.flush_all();
}

std::string Attempt::last_words(std::size_t local_rank) {
  read_all_of(local_rank);
  std::string words;
  for (const std::string& line : output_.last_words(local_rank)) words += line + "\n";
  return words;
}

void Attempt::show_last_words() {
  for (const std::size_t rank : ended_) output_.show_last_words(rank, Clock::now());
}

int Attempt::show() {
  output_.flush_all();
  auto last_taken = Clock::now();
  for (int told = 0;;) {
    std::vector<pollfd> fds{{launcher_.inbox.fd(), POLLIN, 0}};
    for (const int fd : output_.waiting()) fds.push_back({fd, POLLOUT, 0});
    if (fds.size() == 1) return told;
    poll(fds.data(), fds.size(), ending_.stop_signal != 0 ? static_cast<int>(kReaderPatience.count()) : -1);
    const std::size_t before = output_.held_bytes();
    output_.flush_all();
    if (output_.held_bytes() < before) last_taken = Clock::now();
    while (const int signal = launcher_.inbox.take()) {
      if (signal != SIGUSR1) told = signal;
    }
    const bool no_reader = ending_.stop_signal != 0 && Clock::now() - last_taken >= kReaderPatience;
    if (told != 0 || no_reader) output_.discard_held();
  }
}

void Attempt::send_all(int signal) const {
  for (const auto& rank : ranks_) rank.send(signal);
}

}  // namespace zero
