// AttachedCheckpoints: checkpoints of an attached model: the engine's states, its buffers, and the random generator.
//
//   AttachedCheckpoints checkpoints(engine, values, buffers, place, role);
//   checkpoints.begin_save(path, contents, SaveMode::kAsync)->wait();
//   LoadedCheckpoint loaded = checkpoints.load(path, calls);
//
// Collective, between steps. Throws what CheckpointSave, InMemoryCheckpoints::save() and load_checkpoint() throw, and
// ConfigError if a buffer is missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "zero/checkpoint/image/image_memory.h"
#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/checkpoint/load.h"
#include "zero/checkpoint/save.h"
#include "zero/engine/rank_role.h"
#include "zero/torch/attached/attached_values.h"
#include "zero/torch/attached/rank_extras.h"

namespace zero {

// A model with several engines.
struct WholeModel {
  std::span<const std::string> names{};  // of all its parameters
  std::int64_t num_files = 0;            // that all its engines together save
};

class AttachedCheckpoints {
 public:
  // All arguments must outlive the object. `place`: the device of the model. The states of `role` are stored in the
  // rank's file.
  AttachedCheckpoints(RankEngine& engine, AttachedValues& values, NamedBuffers& buffers, c10::Device place,
                      RankRole& role)
      : engine_(engine), values_(values), buffers_(buffers), place_(place), role_(role), images_(engine.resources()) {}

  std::unique_ptr<CheckpointSave> begin_save(const std::filesystem::path& path, SaveContents contents, SaveMode mode);
  [[nodiscard]] bool keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents);
  LoadedCheckpoint load(const std::filesystem::path& path, const FileCalls& calls, FetchCall fetch = {});
  // The parts of load(), to load several models (zero/torch/save_all.h): check() makes all checks and changes nothing;
  // fill() changes the values. From begin_load() to end_load() there are no values.
  struct Checked {
    std::unique_ptr<CheckpointLoad> load;
    std::filesystem::path path;
    bool with_generator = false;
  };
  // `whole`: the model of which the engine has a part; default: the engine has all of it.
  Checked check(const std::filesystem::path& path, const FileCalls& calls, const WholeModel& whole = {});
  void begin_load() { values_.begin_load(); }
  LoadedCheckpoint fill(Checked& checked);
  void end_load();

  bool has_room_to_copy(std::int64_t bytes) { return images_.has_room(bytes); }
  // Gives memory for copies back if the machine is short of memory. Called in each step.
  void yield() { images_.yield(); }

 private:
  bool owns_generator() const;
  SaveContents with_extras(SaveContents contents) const;
  void restore_role(const LoadedCheckpoint& loaded);

  RankEngine& engine_;
  AttachedValues& values_;
  NamedBuffers& buffers_;
  c10::Device place_;
  RankRole& role_;
  ImageMemory images_;  // memory of asynchronous saves, one after another
};

}  // namespace zero
