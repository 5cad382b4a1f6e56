#include "tests/faults/watched_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace zero {
namespace {

constexpr std::chrono::minutes kPatience{5};  // limit for hangs, not for slow machines
constexpr int kLookMs = 2;

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The common prefix of the marks of this program's commands.
std::string mark_of_program() {
  return fmt::format("ZERO_FAULT_TEST={}-", getpid());
}

std::string make_mark() {
  return fmt::format("{}{}", mark_of_program(), Clock::now().time_since_epoch().count());
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

// "NAME=value" entries, each ended by a zero byte. Empty for a zombie and for another user's process.
std::string environment_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string_view> split(std::string_view environment) {
  std::vector<std::string_view> entries;
  while (!environment.empty()) {
    const std::size_t end = std::min(environment.find('\0'), environment.size());
    entries.push_back(environment.substr(0, end));
    environment.remove_prefix(std::min(end + 1, environment.size()));
  }
  return entries;
}

int rank_in(const std::vector<std::string_view>& entries) {
  for (const std::string_view name : {"RANK=", "OMPI_COMM_WORLD_RANK="}) {
    for (const std::string_view entry : entries) {
      if (entry.substr(0, name.size()) == name) return std::atoi(std::string(entry.substr(name.size())).c_str());
    }
  }
  return -1;
}

std::optional<pid_t> process_number(const std::filesystem::path& folder) {
  const std::string name = folder.filename();
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

// Calls `action` with each process and its environment's entries.
template <typename Action>
void for_each_process(Action action) {
  for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
    const std::optional<pid_t> pid = process_number(folder.path());
    if (!pid) continue;
    const std::string environment = environment_of(*pid);
    action(*pid, split(environment));
  }
}

}  // namespace

std::vector<pid_t> living_of_all_commands() {
  const std::string mark = mark_of_program();
  std::vector<pid_t> found;
  for_each_process([&](pid_t pid, const std::vector<std::string_view>& entries) {
    if (std::ranges::any_of(entries, [&](std::string_view entry) { return entry.starts_with(mark); }))
      found.push_back(pid);
  });
  return found;
}

WatchedCommand::WatchedCommand(const std::vector<std::string>& program, const Variables& environment)
    : mark_(make_mark()) {
  std::vector<std::string> entries{mark_};
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  const std::vector<char*> arguments = pointers(program), variables = pointers(entries);
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) throw_errno("pipe");
  const pid_t test = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // If the test itself is killed, its commands also end.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(127);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(pipe[1], STDOUT_FILENO);
    dup2(pipe[1], STDERR_FILENO);
    execvpe(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  close(pipe[1]);
  output_ = pipe[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
  if (pid_ < 0) throw_errno("fork");
}

WatchedCommand::~WatchedCommand() {
  const auto kill_all = [this] {
    const std::vector<WatchedProcess> left = living();
    for (const WatchedProcess& process : left) kill(process.pid, SIGKILL);
    return left.empty();
  };
  until(kill_all, Clock::now() + kPatience);
  until([this] { return ended(); }, Clock::now() + kPatience);
  close(output_);
}

void WatchedCommand::send(int signal) const {
  if (status_ < 0) kill(pid_, signal);  // else the number may be another process's
}

std::vector<WatchedProcess> WatchedCommand::living() const {
  std::vector<WatchedProcess> found;
  for_each_process([&](pid_t pid, const std::vector<std::string_view>& entries) {
    if (std::find(entries.begin(), entries.end(), mark_) != entries.end()) found.push_back({pid, rank_in(entries)});
  });
  return found;
}

void WatchedCommand::look_for_sockets() {
  const OpenSockets open = open_sockets();
  for (const WatchedProcess& process : living()) {
    for (const std::uint64_t inode : sockets_of(process.pid)) {
      if (const auto found = open.find(inode); found != open.end()) sockets_.insert(*found);
    }
  }
}

OpenSockets WatchedCommand::sockets_left() const {
  OpenSockets left = open_sockets();
  std::erase_if(left, [this](const auto& socket) { return !sockets_.contains(socket.first); });
  return left;
}

pid_t WatchedCommand::wait_for_rank(int rank) {
  pid_t pid = -1;
  const auto started = [&] {
    const bool over = ended();  // first, so a process that ends now is looked at once more
    for (const WatchedProcess& process : living()) {
      if (process.rank == rank) pid = process.pid;
    }
    return pid > 0 || over;
  };
  until(started, Clock::now() + kPatience);
  return pid;
}

bool WatchedCommand::wait_for(const std::string& text, std::size_t from) {
  const auto said = [&] { return text_.find(text, from) != std::string::npos; };
  const auto said_or_over = [&] {
    const bool over = ended();
    if (over) read_output(0);
    return said() || over;
  };
  until(said_or_over, Clock::now() + kPatience);
  return said();
}

void WatchedCommand::read_until(Clock::time_point moment) {
  until([this] { return ended(); }, moment);
}

bool WatchedCommand::ranks_gone_before(Clock::time_point deadline) {
  const auto gone = [this] {
    const std::vector<WatchedProcess> left = living();
    return std::none_of(left.begin(), left.end(), [](const WatchedProcess& process) { return process.rank >= 0; });
  };
  return until(gone, deadline);
}

bool WatchedCommand::gone_before(Clock::time_point deadline) {
  return until([this] { return living().empty(); }, deadline);
}

bool WatchedCommand::sockets_gone_before(Clock::time_point deadline) {
  return until([this] { return sockets_left().empty(); }, deadline);
}

int WatchedCommand::finish() {
  until([this] { return ended(); }, Clock::now() + kPatience);
  read_output(0);
  return status_;
}

// Reads output while it waits. A look takes milliseconds. If one takes far longer, the machine or this process was
// suspended, and the deadline moves by that time.
bool WatchedCommand::until(const std::function<bool()>& holds, Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kStoodStill{500};
  while (true) {
    const auto begin = Clock::now();
    if (holds()) return true;
    if (begin >= deadline) return false;
    read_output(kLookMs);
    if (const auto took = Clock::now() - begin; took > kStoodStill) deadline += took;
  }
}

void WatchedCommand::read_output(int timeout_ms) {
  pollfd ready{output_, POLLIN, 0};
  poll(&ready, 1, timeout_ms);
  if ((ready.revents & POLLIN) == 0) {
    if (ready.revents != 0) poll(nullptr, 0, timeout_ms);  // end of file: no output will come, so only wait
    return;
  }
  std::array<char, 4096> bytes;
  ssize_t got = 0;
  while ((got = read(output_, bytes.data(), bytes.size())) > 0)
    text_.append(bytes.data(), static_cast<std::size_t>(got));
}

bool WatchedCommand::ended() {
  if (status_ >= 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

}  // namespace zero
