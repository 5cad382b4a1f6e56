// SeveralLaunchers: ranks of several machines that keep in-memory checkpoints. Each machine's launcher runs in a thread
// of the test.
//
//   SeveralLaunchers machines({0, 0, 1});                          // machines of ranks 0, 1 and 2
//   on_ranks(3, [&](Communicator& comm) { InMemoryCheckpoints kept(machines.connect(comm), "run", comm); });
//   machines.lose(1);                                              // starts its launcher anew
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "zero/checkpoint/in_memory_checkpoints.h"

#include "tests/checkpoint/launcher.h"
#include "tests/checkpoint/saved_model.h"

namespace zero {

class SeveralLaunchers {
 public:
  explicit SeveralLaunchers(std::vector<int> machine_of_rank) : machines_(std::move(machine_of_rank)) {
    for (int machine = 0; machine <= *std::ranges::max_element(machines_); ++machine)
      launchers_.push_back(std::make_unique<Launcher>());
  }

  int world() const { return static_cast<int>(machines_.size()); }
  Launcher& launcher(int machine) { return *launchers_[static_cast<std::size_t>(machine)]; }
  LauncherMemory connect(const Communicator& comm) {
    return launcher(machines_[static_cast<std::size_t>(comm.rank())]).connect();
  }
  void lose(int machine) { launchers_[static_cast<std::size_t>(machine)] = std::make_unique<Launcher>(); }
  // As a launcher does before it restarts ranks.
  void drop_unfinished() {
    for (const auto& launcher : launchers_) {
      LauncherMemory memory = launcher->connect();
      for (const std::string& name : memory.list(""))
        if (name.find(kUnfinishedNames) != std::string::npos) memory.remove(name);
    }
  }

  using Bits = std::vector<std::vector<std::uint32_t>>;

  // Trains from `from` to `to`, and first loads the newest checkpoint if `from` is not 0. Keeps a checkpoint before
  // each step of `at`.
  Bits run(const Cell& cell, int from, int to, const std::vector<int>& at) {
    Bits end(static_cast<std::size_t>(world()));
    on_ranks(world(), [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(cell.dtype), options_of(cell));
      InMemoryCheckpoints kept(connect(comm), "run", comm);
      if (from > 0) {
        if (kept.agree(comm).steps != std::vector<std::int64_t>{from}) throw Error("it is not whole everywhere");
        load(kept, model.engine(), from);
      }
      for (int step = from; step < to; ++step) {
        if (std::ranges::find(at, step) != at.end() &&
            !kept.save(model.engine(), step, {.run = {{"step", std::to_string(step)}}}))
          throw Error("not kept");
        train_steps(model, step, step + 1, cell.accumulate);
      }
      end[static_cast<std::size_t>(comm.rank())] = state_bits(model.engine());
    });
    return end;
  }

  static LoadedCheckpoint load(InMemoryCheckpoints& kept, RankEngine& engine, std::int64_t step) {
    InMemoryFiles files = kept.files_of(step);
    return load_checkpoint(engine, kept.path_of(step), files,
                           {.fetch = [&](const CheckpointReader& reader) { files.fetch(engine.resources(), reader); }});
  }

 private:
  std::vector<int> machines_;
  std::vector<std::unique_ptr<Launcher>> launchers_;
};

}  // namespace zero
