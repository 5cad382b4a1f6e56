// A program whose saves are killed, and whose power is cut: two checkpoints of a small engine of one rank, without
// torch.
//
//   zero_fault_saver save FOLDER [--first STEP] [--same] [--wait]     saves steps 1 and 2, or from STEP on
//                                [--cut N MOUNT] [--commit N] [--no-sync]
//   zero_fault_saver load FOLDER                                      the newest that is whole
//
// Says "saved STEP HASH" when a save was acknowledged, "loaded STEP HASH", "damaged PATH: ..." or "none", and in the
// end "calls N": those that change a file. HASH is of every bit of the states. Without --same each step has its own
// folder, of which one is kept; with it both use one path.
//
// All file calls are made by one thread, one after another, so that the n-th is the same one in every run. --wait says
// "thread TID" and begins when a line comes. --cut: before the N-th call, or in the end, the ext4 at MOUNT loses what
// it had not brought to the disk, and everything ends with status 9. --commit: before the N-th call the file system
// brings all of it there, as it does every few seconds. --no-sync: fsync does nothing, to see that a cut is one.
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
#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/load.h"
#include "zero/checkpoint/save.h"
#include "zero/comm/in_process.h"

#include "../engine/scripted_model.h"

namespace zero {
namespace {

constexpr int kLastStep = 2;
constexpr int kCutStatus = 9;

struct SaverOptions {
  std::string verb;
  std::filesystem::path folder;
  int first = 1;
  bool same = false;
  bool wait = false;
  bool no_sync = false;
  int cut = -1;  // none
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

  // Until it is done.
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

// A file of several blocks, written in several requests.
ScriptedModel make_model(Communicator& comm) {
  std::vector<ParamSpec> specs = small_specs();
  specs.front().shape = {768, 512};
  return {comm, specs, EngineOptions{.clip = 1.5}};
}

std::string hash_of(Engine& engine) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&hash](std::byte byte) { hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ull; };
  engine.pause();
  for (const Unit& unit : engine.units()) {
    for (int state = 0; state < engine.num_saved_states(unit.index); ++state)
      engine.read_shard(unit.index, state, [&](std::int64_t, std::span<const std::byte> elements) {
        for (const std::byte byte : elements) add(byte);
      });
  }
  return fmt::format("{:016x}", hash);
}

int save(const SaverOptions& options, Communicator& comm) {
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
    if (!options.same) folder.keep(1, step);
  }
  say(fmt::format("calls {}", calls.count()));
  if (options.cut >= 0) cut_the_power(options.mount);
  return 0;
}

int load(const SaverOptions& options, Communicator& comm) {
  for (const auto& entry : CheckpointFolder(options.folder).list()) {
    try {
      ScriptedModel model = make_model(comm);
      const LoadedCheckpoint loaded = load_checkpoint(model.engine(), entry.path);
      say(fmt::format("loaded {} {}", loaded.manifest.steps, hash_of(model.engine())));
      return 0;
    } catch (const IoError& error) {
      say(fmt::format("damaged {}: {}", entry.path.string(), error.what()));
    }
  }
  say("none");
  return 0;
}

SaverOptions parse(const std::vector<std::string>& arguments) {
  SaverOptions options{.verb = arguments.at(0), .folder = arguments.at(1)};
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--first") {
      options.first = std::stoi(arguments.at(++i));
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

int run(const std::vector<std::string>& arguments) {
  try {
    const SaverOptions options = parse(arguments);
    const auto ranks = make_in_process(1, std::chrono::seconds(60));
    return options.verb == "save" ? save(options, *ranks.front()) : load(options, *ranks.front());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}

}  // namespace
}  // namespace zero

int main(int argc, char** argv) {
  return zero::run({argv + 1, argv + argc});
}
