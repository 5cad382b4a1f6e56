// RunCheckpoints: when a run is saved, what is kept, and where it continues.
//
//   RunCheckpoints checkpoints({.every_steps = 500}, files.checkpoints, std::nullopt, comm, say);
//   if (auto resumed = checkpoints.resume(engine)) step = resumed->state.step;     // the newest that is whole
//   ...
//   checkpoints.poll();                                       // after each step: publishes what is written
//   if (checkpoints.due(step, steps, may_ask)) checkpoints.begin(engine, state, config, SaveMode::kAsync);
//   checkpoints.finish(engine);
//
// In-memory checkpoints are kept, too, where the launcher holds memory for its ranks (InMemoryCheckpoints): ranks that it starts
// again go on from there.
//
// One save at a time: a second waits for the first. A save that fails is said and, as the options say, tried again when
// the next is due, or thrown. Collective, unless said otherwise; every rank asks at the same steps.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/checkpoint/save.h"
#include "zero/torch/attach.h"

#include "app/report/best_evaluation.h"

namespace zero {

// The folder itself, or the nearest above it that is there.
std::filesystem::path nearest_existing(std::filesystem::path folder);

struct CheckpointPolicy {
  std::int64_t every_steps = 0;
  double every_seconds = 0;  // both 0: nothing is saved
  std::int64_t keep = 3;
  std::optional<BestMeasure> keep_best;  // nothing: the newest ones only
  std::int64_t memory_every = 0;         // steps between in-memory checkpoints; 0: none
  bool async = true;
  bool stop_on_error = false;

  // Is anything saved to disk?
  bool on() const { return every_steps > 0 || every_seconds > 0; }
};

// What a run says of itself in its checkpoints.
struct RunState {
  std::int64_t step = 0;     // steps done, those without an update too
  std::int64_t samples = 0;  // seen so far
  std::vector<float> losses;
  std::vector<double> grad_norms, seconds;  // of each step
  std::vector<std::int64_t> skipped;        // numbers of the steps without an update, counted from 1
  std::int64_t rewinds = 0, spikes = 0;     // of the run, those of steps that were taken back too
  BestEvaluation best;                      // of the evaluations that came before
  std::string data;                         // data_mark() of its samples; empty: of an earlier version
  std::string places;  // at which its ranks compute (computing_place.h); empty: of an earlier version
};

struct Resumed {
  RunState state;
  Manifest manifest;
  std::string place;  // where it was saved, for the user
};

class RunCheckpoints {
 public:
  // `say`: a line for the user.
  using Say = std::function<void(const std::string&)>;
  // `memory`: the launcher, where it keeps memory for this process. With it kSeveral is Collective.
  enum class Machines : std::uint8_t { kOne, kSeveral };
  RunCheckpoints(const CheckpointPolicy& options, CheckpointFolder folder, std::optional<LauncherMemory> memory,
                 Communicator& comm, Say say, Machines machines = Machines::kOne);

  // Local. Throws ConfigError where the disk has no room for one checkpoint; says where it has none for all to be kept.
  static void require_room(const CheckpointPolicy& options, const std::filesystem::path& folder, std::int64_t bytes,
                           const Say& say);

  // Says, before training, where asynchronous saves of `bytes` a rank would have no memory to copy into.
  void expect_room_to_copy(Attachment& engine, std::int64_t bytes);

  // The steps of what is there, on disk or in memory, as rank 0 sees it, the newest first. An in-memory checkpoint that a
  // machine's launcher has not is not there: that is said.
  std::vector<std::int64_t> steps();
  // Loads the newest that is whole, of steps up to `newest`; each that is not is named and passed over. Empty: there is
  // none at all. Throws IoError where all are damaged, ConfigError for one of another model.
  std::optional<Resumed> resume(Attachment& engine, std::int64_t newest = std::numeric_limits<std::int64_t>::max());

  // Is it time, after `step` of `steps`? The last one always counts, so that a finished run can go on; by time, rank
  // 0's clock is asked where `may_ask`.
  bool due(std::int64_t step, std::int64_t steps, bool may_ask);
  void begin(Attachment& engine, const RunState& state, std::string config, SaveMode mode);
  void poll();
  // Applies what a delayed update holds back, and waits for the save that was begun: the ranks ask each other many times
  // meanwhile, which leaves no room for works in flight.
  void finish(Attachment& engine);

  bool has_launcher_memory() const { return kept_.has_value(); }  // Local
  bool due_in_memory(std::int64_t step) const;                    // Local
  // Every state is in the launcher's memory when it returns. Where there is no room for that, it is said once.
  void save_in_memory(Attachment& engine, const RunState& state, std::string config);
  bool last_failed() const { return last_failed_; }  // Local
  // Local. Of the newest that this process has saved, or taken, and that is whole on the disk; -1: none.
  std::int64_t step_on_disk() const { return step_on_disk_; }

 private:
  struct Saved {
    std::int64_t step = 0;
    bool in_memory = false;
  };
  std::vector<Saved> saved();
  std::vector<std::int64_t> in_every_memory();
  SaveContents contents_of(const RunState& state, std::string config) const;
  Resumed load(Attachment& engine, const Saved& saved);
  void say_not_copied();
  void settle(const std::function<bool(CheckpointSave&)>& advance);

  CheckpointPolicy options_;
  CheckpointFolder folder_;
  Communicator& comm_;
  Say say_;
  std::unique_ptr<CheckpointSave> save_;  // on its way
  std::int64_t saving_step_ = 0;
  bool saving_best_ = false;
  std::int64_t best_on_disk_ = -1;  // of checkpoint.keep_best; -1: none
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
