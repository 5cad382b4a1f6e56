// RunCheckpoints: decides when a run is saved, which checkpoints are kept, and from which step it continues.
//
//   RunCheckpoints checkpoints({.every_steps = 500}, files.checkpoints, std::nullopt, comm, say);
//   if (auto resumed = checkpoints.resume(engine)) step = resumed->state.step;     // the newest undamaged checkpoint
//   ...
//   checkpoints.poll();                                       // after each step: publishes a completed save
//   if (checkpoints.due(step, steps, may_ask)) checkpoints.begin(engine, state, config, SaveMode::kAsync);
//   checkpoints.finish(engine);
//
// If the launcher holds memory for its ranks, it also keeps in-memory checkpoints (InMemoryCheckpoints), from which
// restarted ranks continue. Only one save runs at a time: a second save waits for the first. A failed save is reported;
// by option it is thrown, or tried again when the next save is due.
//
// Collective, unless a function says otherwise; every rank calls them at the same steps.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zero/base/error/error.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/checkpoint/running_save.h"
#include "zero/torch/attach.h"

#include "app/report/best_evaluation.h"
#include "app/report/files/served_report.h"
#include "app/train/engine/engine_of_run.h"
#include "app/train/folder/checkpoint_policy.h"

namespace zero {

// Returns the folder itself, or its nearest existing parent.
std::filesystem::path nearest_existing(std::filesystem::path folder);

// Bytes that a rank has sent in the steps of its run, and those to other copies of the model.
struct SentInSteps {
  std::int64_t total = 0;
  std::int64_t between_copies = 0;  // part of `total`
};

// The state of a run that its checkpoints store beside the model's states.
struct RunState {
  std::int64_t step = 0;     // steps done, including steps without an update
  std::int64_t samples = 0;  // samples used so far
  std::vector<float> losses;
  std::vector<double> grad_norms, seconds;  // values of each step
  std::vector<std::int64_t> skipped;        // numbers of the steps that health refused, counted from 1
  std::int64_t rewinds = 0, spikes = 0;     // counts of the run, including steps that were taken back
  BestEvaluation best;                      // best of the evaluations so far
  std::string data;                         // data_mark() of its samples; empty: saved by an earlier version
  std::string places;             // places of its ranks (computing_place.h); empty: saved by an earlier version
  std::vector<SentInSteps> sent;  // by rank; empty: saved by an earlier version
  ServedSteps served{};           // of rank 0, if there are servers
  std::string line;               // rank 0's line of `step` in metrics.jsonl

  // Returns what the rank with this number has sent; nothing if an earlier part of the run had fewer ranks.
  SentInSteps sent_by(int rank) const {
    return static_cast<std::size_t>(rank) < sent.size() ? sent[static_cast<std::size_t>(rank)] : SentInSteps{};
  }
};

struct Resumed {
  RunState state;
  Manifest manifest;
  std::string place;  // source of the checkpoint, for the user
};

class RunCheckpoints {
 public:
  // Prints a line for the user.
  using Say = std::function<void(const std::string&)>;
  // `memory`: the launcher, if it keeps memory for this process. The constructor is Collective with `memory` and
  // kSeveral.
  enum class Machines : std::uint8_t { kOne, kSeveral };
  RunCheckpoints(const CheckpointPolicy& options, CheckpointFolder folder, std::optional<LauncherMemory> memory,
                 Communicator& comm, Say say, Machines machines = Machines::kOne);

  // Local. Calls `log` on rank 0 after each save to disk, with the sums of the saved states (state_sums.h).
  using LogSaved = std::function<void(std::int64_t step, const std::string& state_sums)>;
  void log_saves(LogSaved log) { log_saved_ = std::move(log); }

  // Local. Saves after these steps only, ascending, and whatever the options say. Empty: as the options say.
  void save_only_after(std::vector<std::int64_t> steps) { only_after_ = std::move(steps); }

  // Local. Throws ConfigError if the disk has no room for one checkpoint. Prints a note if it has no room for all
  // checkpoints to be kept.
  static void require_room(const CheckpointPolicy& options, const std::filesystem::path& folder, std::int64_t bytes,
                           const Say& say);

  // Prints a note before training if there is no memory for the copies of asynchronous saves, of `bytes` a rank.
  void expect_room_to_copy(Engine& engine, std::int64_t bytes);

  // Returns the steps of all checkpoints on disk or in memory, as rank 0 sees them, the newest first. An in-memory
  // checkpoint does not count if the launcher of a machine lacks it; a note reports it.
  std::vector<std::int64_t> steps();
  // Loads the newest undamaged checkpoint of at most step `newest`. Each damaged checkpoint is reported and skipped.
  // Empty: there is no checkpoint. Throws IoError if all are damaged, ConfigError for a checkpoint of another model.
  std::optional<Resumed> resume(EngineOfRun engine, std::int64_t newest = std::numeric_limits<std::int64_t>::max());

  // True if a save is due after `step` of `steps`. The last step is always saved, so a finished run can be continued.
  // If saves depend on time, rank 0's clock decides, and only if `may_ask`.
  bool due(std::int64_t step, std::int64_t steps, bool may_ask);
  void begin(EngineOfRun engine, const RunState& state, std::string config, SaveMode mode);
  void poll();
  // Applies the gradient that a delayed update holds back, and waits for the current save.
  void finish(EngineOfRun engine);

  bool has_launcher_memory() const { return kept_.has_value(); }  // Local
  bool due_in_memory(std::int64_t step) const;                    // Local
  // Copies every state into the launcher's memory before it returns. If there is no room, a note says so once.
  void save_in_memory(Engine& engine, const RunState& state, std::string config);
  // True if `checkpoint.keep_best` asks for a checkpoint of the best step, and rank 0 has none on disk.
  bool lacks_best(const BestEvaluation& best);
  bool last_failed() const { return last_failed_; }  // Local
  // Local. Returns the step of the newest undamaged disk checkpoint that this process has saved or loaded; -1: none.
  std::int64_t step_on_disk() const { return step_on_disk_; }

 private:
  struct Saved {
    std::int64_t step = 0;
    bool in_memory = false;
  };
  std::vector<Saved> saved();
  std::vector<std::int64_t> in_every_memory();
  SaveContents contents_of(const RunState& state, std::string config) const;
  Resumed load(EngineOfRun engine, const Saved& saved);
  void say_not_copied();
  // Takes a save that is published. `waits`: waits for that. Null: no-op.
  void settle(bool waits);
  // Continues after a save has begun.
  void go_on(EngineOfRun engine, SaveMode mode);
  void fail(const IoError& error);
  void count_saved(const RunningSave& saved);

  CheckpointPolicy options_;
  CheckpointFolder folder_;
  Communicator& comm_;
  Say say_;
  LogSaved log_saved_;
  std::vector<std::int64_t> only_after_;
  std::unique_ptr<RunningSave> save_;  // null: no save is running
  std::int64_t saving_step_ = 0;
  bool saving_best_ = false;
  std::int64_t best_on_disk_ = -1;  // step of the best checkpoint on disk (checkpoint.keep_best); -1: none
  double last_begin_;
  bool last_failed_ = false;
  std::int64_t step_on_disk_ = -1;
  bool said_not_copied_ = false;
  std::optional<InMemoryCheckpoints> kept_;
  bool said_in_memory_ = false;
  bool said_no_memory_ = false;
  std::int64_t said_partial_ = -1;
};

}  // namespace zero
