// A scripted model (tests/engine) for tests of saving, loading and reading checkpoints.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "zero/checkpoint/load.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/checkpoint/save.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"

namespace zero {

struct Cell {
  int world = 2;
  int stage = 3;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
  OffloadOptions offload{};
  bool delayed_update = false;
};

inline AttachOptions options_of(const Cell& cell) {
  AttachOptions options{.stage = cell.stage,
                        .clip = 1.5,
                        .accumulate = cell.accumulate,
                        .delayed_update = cell.delayed_update,
                        .exact_steps = 1,
                        .offload = cell.offload};
  return options;
}

// All bits of the states, by unit: parameters in full precision and moments of all ranks.
inline std::vector<std::uint32_t> state_bits(RankEngine& engine) {
  engine.states().pause();
  std::vector<std::uint32_t> mine;
  for (const Unit& unit : engine.units()) {
    for (int state = 0; state < engine.states().contents().num_saved_states(unit.index); ++state) {
      engine.states().read_shard(unit.index, state, [&](std::int64_t first, std::span<const std::byte> elements) {
        const DType dtype = engine.states().contents().saved_dtype(unit.index, state);
        for (std::size_t i = 0; i < elements.size() / size_of(dtype); ++i) {
          const float value = load_element(elements.data(), dtype, static_cast<std::int64_t>(i));
          if (first + static_cast<std::int64_t>(i) < unit.numel) mine.push_back(std::bit_cast<std::uint32_t>(value));
        }
      });
    }
  }
  return mine;
}

// Trains steps [from, to). In step 1 one unit gets no gradient, so step counts differ between units.
inline void train_steps(ScriptedModel& model, int from, int to, int accumulate) {
  const int absent = model.param_named("h.0.weight");
  for (int step = from; step < to; ++step) {
    model.has_gradient = [=](int param) { return step != 1 || (param != absent && param != absent + 1); };
    model.train(step, accumulate);
  }
}

inline void save_now(RankEngine& engine, const std::filesystem::path& path, SaveMode mode = SaveMode::kSync,
                     const FileCalls& calls = FileCalls::kernel()) {
  CheckpointSave(engine, path, {.run = {{"step", "3"}}}, mode, calls).wait();
}

// All elements by tensor and state, independent of the cut.
using Elements = std::map<std::string, std::vector<std::uint32_t>>;
inline Elements elements(const std::filesystem::path& path) {
  CheckpointReader reader(path);
  Elements all;
  const Manifest& manifest = reader.manifest();
  for (int tensor = 0; tensor < std::ssize(manifest.tensors); ++tensor) {
    const SavedTensor& saved = manifest.tensors[static_cast<std::size_t>(tensor)];
    for (int state = 0; state < (saved.trainable ? std::ssize(manifest.states) : 1); ++state) {
      std::vector<float> values(static_cast<std::size_t>(saved.numel()));
      reader.read(tensor, state, 0, values);
      auto& bits = all[saved.name + "/" + std::to_string(state)];
      for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
  }
  return all;
}

}  // namespace zero
