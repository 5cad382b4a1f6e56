#include "zero/launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "zero/base/check.h"
#include "zero/base/file.h"
#include "zero/launch/cores.h"
#include "zero/launch/descriptor_limit.h"
#include "zero/launch/failure_report.h"
#include "zero/launch/keeper_server.h"
#include "zero/launch/orphan_guard.h"
#include "zero/launch/rank_environment.h"
#include "zero/launch/rank_output.h"
#include "zero/launch/rank_process.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;
using Stream = RankOutput::Stream;

// Signals become readable; what was set before comes back at the end.
class SignalInbox {
 public:
  SignalInbox() {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, &before_);
    old_pipe_ = ::signal(SIGPIPE, SIG_IGN);
    fd_ = FileDescriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    if (fd_.get() < 0) throw IoError("launcher", "signalfd", errno);
  }
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox() {
    ::signal(SIGPIPE, old_pipe_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  // 0 when there is none. SIGCHLD is only a wake-up.
  int take() {
    signalfd_siginfo info{};
    while (read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    }
    return 0;
  }

 private:
  sigset_t before_{};
  sighandler_t old_pipe_ = SIG_DFL;
  FileDescriptor fd_;
};

// One start of all ranks, until all have ended.
class Attempt {
 public:
  Attempt(const LaunchOptions& options, SignalInbox& inbox, OrphanGuard& guard, KeeperServer& keeper,
          const rlimit& descriptors)
      : options_(options),
        inbox_(inbox),
        guard_(guard),
        keeper_(keeper),
        descriptors_(descriptors),
        output_(numbers(options), shown(options)) {}

  void run(const RunIdentity& identity) {
    start(identity);
    while (num_running_ > 0) {
      wait_for_something();
      take_signals();
      keeper_.serve();
      read_outputs();
      reap();
      end_after_failure();
      output_.flush(Clock::now());
    }
    keeper_.disconnect();
    drain();
  }

  const std::vector<RankEnd>& ends() const { return ends_; }
  int stop_signal() const { return stop_signal_; }

 private:
  static std::vector<int> numbers(const LaunchOptions& options) {
    std::vector<int> out;
    for (int i = 0; i < options.ranks; ++i) out.push_back(options.node_rank * options.ranks + i);
    return out;
  }
  static std::vector<bool> shown(const LaunchOptions& options) {
    std::vector<bool> out(static_cast<std::size_t>(options.ranks), options.shown_ranks.empty());
    for (const int rank : options.shown_ranks) out.at(static_cast<std::size_t>(rank)) = true;
    return out;
  }

  void start(const RunIdentity& identity) {
    const std::vector<int> cores = allowed_cores();
    std::vector<std::string> inherited;
    for (char** entry = environ; *entry != nullptr; ++entry) inherited.emplace_back(*entry);
    for (int i = 0; i < options_.ranks; ++i) {
      const bool first = i == 0 && options_.node_rank == 0;
      const bool is_shown = shown(options_)[static_cast<std::size_t>(i)];
      const FileDescriptor keeper = keeper_.connect();
      Variables variables = rank_variables(options_, identity, i, static_cast<int>(cores.size()));
      variables.emplace_back("ZERO_KEEPER", std::to_string(keeper.get()));
      ranks_.push_back(RankProcess::start({
          .program = options_.program,
          .environment = merge_environment(inherited, variables),
          .cores = options_.bind_cores ? share_of_cores(cores, i, options_.ranks) : std::vector<int>{},
          .inherit_input = first && isatty(STDIN_FILENO) == 0,
          // On a terminal rank 0 draws its own progress; a pipe in between would take the terminal away from it.
          .inherit_output = first && is_shown && isatty(STDOUT_FILENO) != 0,
          .keeper = keeper.get(),
          .descriptors = descriptors_,
          .signal_mask = inbox_.before(),
      }));
      guard_.watch(ranks_.back().pid());
      ++num_running_;
    }
  }

  void wait_for_something() {
    std::vector<pollfd> fds{{inbox_.fd(), POLLIN, 0}, {keeper_.fd(), POLLIN, 0}};
    for (const auto& rank : ranks_) {
      if (rank.output() >= 0) fds.push_back({rank.output(), POLLIN, 0});
      if (rank.errors() >= 0) fds.push_back({rank.errors(), POLLIN, 0});
    }
    std::optional<Clock::time_point> wake = output_.due();
    if (next_end_ && (!wake || *next_end_ < *wake)) wake = next_end_;
    int timeout_ms = -1;
    if (wake) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake - Clock::now()).count();
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    }
    poll(fds.data(), fds.size(), timeout_ms);
  }

  void take_signals() {
    while (const int signal = inbox_.take()) {
      if (signal == SIGUSR1) {
        send_all(signal);
      } else {
        stop(signal);
      }
    }
    if (output_.reader_gone() && stop_signal_ == 0) {
      stop_signal_ = SIGPIPE;
      send_all(SIGTERM);
    }
  }

  void stop(int signal) {
    send_all(stop_signal_ == 0 ? signal : SIGKILL);
    if (stop_signal_ == 0) stop_signal_ = signal;
  }

  void read_outputs() {
    const auto now = Clock::now();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].output() >= 0 && !output_.read_from(i, Stream::kOutput, ranks_[i].output(), now))
        ranks_[i].close_output();
      if (ranks_[i].errors() >= 0 && !output_.read_from(i, Stream::kErrors, ranks_[i].errors(), now))
        ranks_[i].close_errors();
    }
  }

  void reap() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const pid_t pid = ranks_[i].pid();
      const auto end = ranks_[i].reap();
      if (!end) continue;
      guard_.forget(pid);
      --num_running_;
      ended_.push_back(i);
      ends_.push_back({.rank = options_.node_rank * options_.ranks + static_cast<int>(i),
                       .end = *end,
                       .ended_by_us = told_to_end_ || stop_signal_ != 0,
                       .seconds = std::chrono::duration<double>(Clock::now() - started_).count(),
                       .last_lines = {}});
      if (ends_.back().failed() && !next_end_ && num_running_ > 0) next_end_ = Clock::now() + options_.witness;
    }
  }

  void end_after_failure() {
    if (!next_end_ || Clock::now() < *next_end_) return;
    send_all(told_to_end_ ? SIGKILL : SIGTERM);
    told_to_end_ = true;
    next_end_ = Clock::now() + options_.grace;
  }

  // The ranks are gone and so are their groups; what they wrote last is still in the pipes.
  void drain() {
    const auto deadline = Clock::now() + std::chrono::milliseconds(200);
    const auto open = [&] {
      return std::any_of(ranks_.begin(), ranks_.end(),
                         [](const auto& rank) { return rank.output() >= 0 || rank.errors() >= 0; });
    };
    read_outputs();
    while (open() && Clock::now() < deadline) {
      poll(nullptr, 0, 1);
      read_outputs();
    }
    output_.flush_all();
    for (std::size_t i = 0; i < ends_.size(); ++i) ends_[i].last_lines = output_.last_lines(ended_[i]);
  }

  void send_all(int signal) const {
    for (const auto& rank : ranks_) rank.send(signal);
  }

  const LaunchOptions& options_;
  SignalInbox& inbox_;
  OrphanGuard& guard_;
  KeeperServer& keeper_;
  const rlimit& descriptors_;
  RankOutput output_;
  std::vector<RankProcess> ranks_;
  int num_running_ = 0;
  Clock::time_point started_ = Clock::now();
  int stop_signal_ = 0;
  bool told_to_end_ = false;                   // after a failure
  std::optional<Clock::time_point> next_end_;  // when the ranks are told to end, or killed
  std::vector<std::size_t> ended_;             // local ranks, in the order in which they ended
  std::vector<RankEnd> ends_;                  // the same order
};

constexpr int kMostFailuresAtOnePoint = 3;
// Of this process itself, and a rank's: two pipes, a socket, and what its start takes for a moment.
constexpr std::size_t kOwnDescriptors = 64;
constexpr std::size_t kDescriptorsOfARank = 3;
// Of an attempt alone.
constexpr std::string_view kOfOneAttempt = "flight/";

std::int64_t reached_by(const LaunchOptions& options) {
  try {
    return options.progress();
  } catch (const IoError&) {
    return 0;
  }
}

bool all_ended_well(const Attempt& attempt) {
  return std::all_of(attempt.ends().begin(), attempt.ends().end(),
                     [](const RankEnd& end) { return end.end.exit_code == 0 && end.end.signal == 0; });
}

void tell_of_failure(const LaunchOptions& options, const KeptMemory& kept, const Attempt& attempt, int generation) {
  if (!options.after_failure || all_ended_well(attempt)) return;
  try {
    options.after_failure(kept, attempt.ends(), generation);
  } catch (const Error& error) {
    fmt::print(stderr, "zero launch: {}\n", error.what());
  }
}

int status_when_stopped(const Attempt& attempt) {
  return all_ended_well(attempt) ? 0 : 128 + attempt.stop_signal();
}

}  // namespace

int launch(const LaunchOptions& options) {
  ZERO_CHECK(!options.program.empty() && options.ranks >= 1 && options.node_rank < options.nodes);
  const std::string base_id = options.nodes > 1 && !options.run_name.empty() ? options.run_name : random_id();
  SignalInbox inbox;
  OrphanGuard guard;
  const DescriptorLimit descriptors;
  KeeperServer keeper(descriptors.room_for(
      KeptMemory::kMostNames, kOwnDescriptors + kDescriptorsOfARank * static_cast<std::size_t>(options.ranks)));
  std::int64_t reached = -1;
  int failures_there = 0;
  for (int restart = 0;; ++restart) {
    const RunIdentity identity{.run_id = restart == 0 ? base_id : fmt::format("{}-{}", base_id, restart),
                               .master_port = options.master_port != 0 ? options.master_port : free_port(),
                               .restart = restart};
    keeper.kept().remove(kOfOneAttempt);
    Attempt attempt(options, inbox, guard, keeper, descriptors.before());
    attempt.run(identity);
    tell_of_failure(options, keeper.kept(), attempt, restart);
    if (attempt.stop_signal() != 0) return status_when_stopped(attempt);
    const RankEnd* culprit = find_culprit(attempt.ends());
    if (culprit == nullptr) return 0;
    // Asked to save and end, and it could not save.
    if (culprit->end.exit_code == 128 + SIGUSR1 || culprit->end.signal == SIGUSR1) return 128 + SIGUSR1;
    std::fputs(failure_report(attempt.ends(), options.nodes * options.ranks).c_str(), stderr);
    // A bad configuration is the same the next time.
    const int status = exit_status(*culprit);
    if (restart == options.max_restarts || status == 2) return status;
    if (options.progress) {
      const std::int64_t now = reached_by(options);
      failures_there = now == std::exchange(reached, now) ? failures_there + 1 : 1;
      if (failures_there == kMostFailuresAtOnePoint) {
        fmt::print(stderr, "zero launch: {} failures in a row {}: not started again\n", failures_there,
                   now > 0 ? fmt::format("after step {}", now) : "before the first checkpoint");
        return status;
      }
    }
    fmt::print(stderr, "zero launch: starting all ranks again ({} of {})\n", restart + 1, options.max_restarts);
  }
}

}  // namespace zero
