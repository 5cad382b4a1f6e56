// zero_fault_saver: saves two checkpoints of a small engine, without torch. Tests kill its saves or cut its power.
//
//   zero_fault_saver save FOLDER [--first STEP] [--same] [--wait]     saves steps 1 and 2, or from STEP on
//                                [--ranks N [--rank R --run NAME]] [--cut N MOUNT] [--commit N] [--victim R]
//                                [--no-sync]
//   zero_fault_saver load FOLDER [--ranks N]                          the newest that is whole
//
// Each rank prints "saved STEP HASH" when a save was acknowledged. Rank 0 prints "loaded STEP HASH", "damaged PATH:
// ..." or "none". At the end each rank prints "calls RANK N", the number of calls that change a file. HASH covers every
// bit of all ranks' states. Without --same each step has its own folder, and one folder is kept. With --same both steps
// use one path. Ranks are threads. With --rank this process is one rank, and meets the others over shared memory. A
// rank's file has several blocks.
//
// One thread makes all file calls of a rank in sequence, so the n-th call is the same in every run.
// --wait: prints "thread TID" and begins when it reads a line.
// --cut: the power fails before the N-th call of rank --victim (default 0), or at its end. The ext4 at MOUNT then loses
// all data that is not on the disk, and everything ends with status 9.
// --commit: before the N-th call, the file system writes all data to the disk, as it does every few seconds.
// --no-sync: fsync does nothing, to prove that a cut loses data.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/load.h"
#include "zero/checkpoint/save.h"
#include "zero/comm/board/in_process.h"
#include "zero/comm/board/shared_memory.h"
#include "zero/comm/collectives.h"

#include "tests/engine/scripted_model.h"

namespace zero {
namespace {

constexpr int kLastStep = 2;
constexpr int kCutStatus = 9;
constexpr std::chrono::seconds kTimeout{60};

struct SaverOptions {
  std::string verb;
  std::filesystem::path folder;
  int first = 1;
  int ranks = 1;
  int rank = -1;    // -1: all ranks, as threads
  std::string run;  // the name by which ranks meet
  int victim = 0;
  bool same = false;
  bool wait = false;
  bool no_sync = false;
  int cut = -1;  // -1: no cut
  std::filesystem::path mount;
  int commit = -1;
};

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void cut_the_power(const std::filesystem::path& mount) {
  constexpr unsigned long kShutdown = _IOR('X', 125, __u32);  // EXT4_IOC_SHUTDOWN
  __u32 no_log_flush = 2;
  const FileDescriptor root = FileDescriptor::open(mount, O_RDONLY | O_DIRECTORY);
  if (ioctl(root.get(), kShutdown, &no_log_flush) != 0) {
    std::fprintf(stderr, "the shutdown ioctl: %s\n", std::strerror(errno));
    _exit(1);
  }
  _exit(kCutStatus);
}

// The kernel's calls, made by one thread.
class OneThreadCalls final : public FileCalls {
 public:
  explicit OneThreadCalls(const SaverOptions& options) : options_(options), thread_([this] { run(); }) {}
  ~OneThreadCalls() override {
    post([this] { ended_ = true; });
    thread_.join();
  }
  OneThreadCalls(const OneThreadCalls&) = delete;
  OneThreadCalls& operator=(const OneThreadCalls&) = delete;

  int count() const { return count_; }
  pid_t thread_id() const {
    pid_t id = 0;
    post([&] { id = gettid(); });
    return id;
  }

  int open(const std::string& path, int flags) const override {
    return (flags & O_CREAT) != 0 ? change([&] { return FileCalls::open(path, flags); })
                                  : there([&] { return FileCalls::open(path, flags); });
  }
  int unlink(const std::string& path) const override {
    return change([&] { return FileCalls::unlink(path); });
  }
  int preallocate(int fd, std::int64_t bytes) const override {
    return change([&] { return FileCalls::preallocate(fd, bytes); });
  }
  int resize(int fd, std::int64_t bytes) const override {
    return change([&] { return FileCalls::resize(fd, bytes); });
  }
  int sync(int fd) const override {
    return change([&] { return options_.no_sync ? 0 : FileCalls::sync(fd); });
  }
  int make_folder(const std::string& path) const override {
    return change([&] { return FileCalls::make_folder(path); });
  }
  int remove_folder(const std::string& path) const override {
    return change([&] { return FileCalls::remove_folder(path); });
  }
  int rename(const std::string& from, const std::string& to) const override {
    return change([&] { return FileCalls::rename(from, to); });
  }
  int exchange(const std::string& one, const std::string& other) const override {
    return change([&] { return FileCalls::exchange(one, other); });
  }
  ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const override {
    return change([&] { return FileCalls::write(fd, from, offset); });
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call> there(Call call) const {
    std::invoke_result_t<Call> result = 0;
    post([&] { result = call(); });
    return result;
  }
  template <typename Call>
  std::invoke_result_t<Call> change(Call call) const {
    return there([&] {
      ++count_;
      if (count_ == options_.commit) {
        const FileDescriptor root = FileDescriptor::open(options_.mount, O_RDONLY | O_DIRECTORY);
        if (syncfs(root.get()) != 0) throw IoError(options_.mount.string(), "syncfs", errno);
      }
      if (count_ == options_.cut) cut_the_power(options_.mount);
      return call();
    });
  }

  // Runs `task` on the thread and waits for its end.
  void post(const std::function<void()>& task) const {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return task_ == nullptr; });
    bool done = false;
    task_ = &task;
    done_ = &done;
    wake_.notify_all();
    free_.wait(lock, [&] { return done; });
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      wake_.wait(lock, [&] { return task_ != nullptr; });
      (*task_)();
      *done_ = true;
      task_ = nullptr;
      free_.notify_all();
    }
  }

  const SaverOptions& options_;
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_, free_;
  mutable const std::function<void()>* task_ = nullptr;
  mutable bool* done_ = nullptr;
  mutable bool ended_ = false;
  mutable int count_ = 0;
  std::thread thread_;
};

// A rank's file has several blocks, and each is written in several requests.
ScriptedModel make_model(Communicator& comm) {
  std::vector<ParamSpec> specs = small_specs();
  specs.front().shape = {comm.world() * 768, 512};
  return {comm, specs, AttachOptions{.clip = 1.5}};
}

// Collective.
std::string hash_of(RankEngine& engine) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&hash](std::byte byte) { hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ull; };
  engine.states().pause();
  for (const Unit& unit : engine.units()) {
    for (int state = 0; state < engine.states().contents().num_saved_states(unit.index); ++state)
      engine.states().read_shard(unit.index, state, [&](std::int64_t, std::span<const std::byte> elements) {
        for (const std::byte byte : elements) add(byte);
      });
  }
  return fmt::format("{}", fmt::join(all_gather_text(engine.resources().comm, fmt::format("{:016x}", hash)), "-"));
}

void save(SaverOptions options, Communicator& comm) {
  const bool is_victim = comm.rank() == options.victim;
  if (!is_victim) options.cut = options.commit = -1;
  const OneThreadCalls calls(options);
  const CheckpointFolder folder(options.folder, calls);
  ScriptedModel model = make_model(comm);
  if (options.wait) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    say(fmt::format("thread {}", calls.thread_id()));
    std::string line;
    std::getline(std::cin, line);
  }
  for (int step = 1; step <= kLastStep; ++step) {
    model.train(step - 1);
    const std::string hash = hash_of(model.engine());
    if (step < options.first) continue;
    CheckpointSave(model.engine(), folder.path_of(options.same ? 1 : step), {.run = {{"step", std::to_string(step)}}},
                   SaveMode::kAsync, calls)
        .wait();
    say(fmt::format("saved {} {}", step, hash));
    if (!options.same && comm.rank() == 0) folder.keep(1, step);
  }
  say(fmt::format("calls {} {}", comm.rank(), calls.count()));
  if (options.cut >= 0) cut_the_power(options.mount);
}

void load(const SaverOptions& options, Communicator& comm) {
  const auto say_once = [&comm](const std::string& line) {
    if (comm.rank() == 0) say(line);
  };
  for (const auto& entry : CheckpointFolder(options.folder).list()) {
    try {
      ScriptedModel model = make_model(comm);
      const LoadedCheckpoint loaded = load_checkpoint(model.engine(), entry.path);
      const std::string hash = hash_of(model.engine());
      say_once(fmt::format("loaded {} {}", loaded.manifest.steps, hash));
      return;
    } catch (const IoError& error) {
      say_once(fmt::format("damaged {}: {}", entry.path.string(), error.what()));
    }
  }
  say_once("none");
}

SaverOptions parse(const std::vector<std::string>& arguments) {
  SaverOptions options{.verb = arguments.at(0), .folder = arguments.at(1)};
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--first") {
      options.first = std::stoi(arguments.at(++i));
    } else if (name == "--ranks") {
      options.ranks = std::stoi(arguments.at(++i));
    } else if (name == "--rank") {
      options.rank = std::stoi(arguments.at(++i));
    } else if (name == "--run") {
      options.run = arguments.at(++i);
    } else if (name == "--victim") {
      options.victim = std::stoi(arguments.at(++i));
    } else if (name == "--same") {
      options.same = true;
    } else if (name == "--wait") {
      options.wait = true;
    } else if (name == "--no-sync") {
      options.no_sync = true;
    } else if (name == "--cut") {
      options.cut = std::stoi(arguments.at(++i));
      options.mount = arguments.at(++i);
    } else if (name == "--commit") {
      options.commit = std::stoi(arguments.at(++i));
    } else {
      throw std::invalid_argument(name);
    }
  }
  return options;
}

// Returns the exit status.
int run_rank(const SaverOptions& options, Communicator& comm) {
  try {
    options.verb == "save" ? save(options, comm) : load(options, comm);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}

int save_as_asked(const std::vector<std::string>& arguments) {
  const SaverOptions options = parse(arguments);
  if (options.rank >= 0) {
    const RankEnvironment self{.rank = options.rank,
                               .world = options.ranks,
                               .local_rank = options.rank,
                               .local_world = options.ranks,
                               .run_id = options.run};
    return run_rank(options, *connect_shared_memory(self, kTimeout));
  }
  std::atomic<int> status = 0;
  std::vector<std::thread> threads;
  for (auto& rank : make_in_process(options.ranks, kTimeout)) {
    threads.emplace_back([&options, &status, comm = std::move(rank)]() mutable {
      if (run_rank(options, *comm) != 0) status = 1;
      comm.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace
}  // namespace zero

int main(int argc, char** argv) {
  try {
    return zero::save_as_asked({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
