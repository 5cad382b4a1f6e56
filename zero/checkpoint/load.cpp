#include "zero/checkpoint/load.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/image/factor_extras.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/image/saved_states.h"
#include "zero/checkpoint/image/state_sums.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

[[noreturn]] void refuse_checkpoint(const std::filesystem::path& folder, const std::string& reason) {
  throw ConfigError("checkpoint", folder.string(), reason,
                    "run `zero inspect` to list its states, or `zero export` to write weights for [model] init");
}
[[noreturn]] void refuse(const CheckpointReader& reader, const std::string& reason) {
  refuse_checkpoint(reader.path(), reason);
}

// Returns the checkpoint's number of a unit's state; SavedStates::kZeros: the checkpoint does not have it.
int number_of(const std::vector<int>& numbers, const Unit& unit, int state) {
  return unit.trainable ? numbers[static_cast<std::size_t>(state)] : state;
}

std::vector<int> numbers_in(const CheckpointReader& reader, RankEngine& engine) {
  return numbers_of_states(reader.path(), reader.manifest().states, engine.states().names(), ApartCopies::of(engine));
}

void require_same_model(const CheckpointReader& reader, const std::vector<int>& numbers, RankEngine& engine,
                        std::span<const std::string> whole_model) {
  const Manifest& saved = reader.manifest();
  for (const ParamSpec& spec : engine.specs()) {
    const int tensor = reader.find(spec.name);
    if (tensor < 0) refuse(reader, fmt::format("has no {}", spec.name));
    const SavedTensor& found = saved.tensors[static_cast<std::size_t>(tensor)];
    if (found.shape != spec.shape)
      refuse(reader, fmt::format("{} has shape [{}], and the model has [{}]", spec.name, fmt::join(found.shape, ", "),
                                 fmt::join(spec.shape, ", ")));
    if (found.trainable != spec.trainable)
      refuse(reader, fmt::format("{} {} frozen in the checkpoint, and {} in the model", spec.name,
                                 found.trainable ? "is not" : "is", spec.trainable ? "is not" : "is"));
  }
  for (const SavedTensor& tensor : saved.tensors)
    if (std::ranges::find(engine.specs(), tensor.name, &ParamSpec::name) == engine.specs().end() &&
        std::ranges::find(whole_model, tensor.name) == whole_model.end())
      refuse(reader, fmt::format("holds {}, which the model does not have", tensor.name));
  const auto states = engine.states().names();
  for (const Unit& unit : engine.units()) {
    for (int state = 0; state < engine.states().contents().num_saved_states(unit.index); ++state) {
      const int number = number_of(numbers, unit, state);
      if (number == SavedStates::kZeros) continue;
      for (const Slice& slice : unit.slices) {
        const std::string& name = engine.specs()[static_cast<std::size_t>(slice.param)].name;
        if (slice.numel == 0 ||
            reader.has(reader.find(name), number) == engine.states().contents().keeps(unit.index, state))
          continue;
        refuse(reader, fmt::format("{} has another update rule in the checkpoint: it {} {}", name,
                                   engine.states().contents().keeps(unit.index, state) ? "has no" : "has",
                                   states[static_cast<std::size_t>(state)]));
      }
    }
  }
}

// Announces the elements that this rank holds, so nothing else is read ahead.
void expect_held(CheckpointReader& reader, const std::vector<int>& tensors, const std::vector<int>& numbers,
                 const RankEngine& engine) {
  for (const Unit& unit : engine.units()) {
    for (int state = 0; state < engine.states().contents().num_saved_states(unit.index); ++state) {
      const int number = number_of(numbers, unit, state);
      if (!engine.states().contents().keeps(unit.index, state) || number == SavedStates::kZeros) continue;
      const Shard held = engine.states().contents().held(unit.index, state);
      for (const Slice& slice : owned_in(unit, held)) {
        const SlicePart part = overlap(slice, held);
        if (part.numel > 0)
          reader.expect(tensors[static_cast<std::size_t>(slice.param)], number, part.begin, part.numel);
      }
    }
  }
}

// Returns the size in a checkpoint, in fp32. It bounds the blocks of files that are held at a time.
std::int64_t largest_unit_bytes(const RankEngine& engine) {
  std::int64_t numel = 0;
  for (const Unit& unit : engine.units()) numel = std::max(numel, unit.numel);
  return numel * static_cast<std::int64_t>(sizeof(float));
}

void fill_held(CheckpointReader& reader, const std::vector<int>& tensors, const Unit& unit, int state,
               std::int64_t first, std::span<float> out) {
  std::ranges::fill(out, 0.0F);  // gaps and padding
  if (state == SavedStates::kZeros) return;
  const Shard range{first, std::ssize(out)};
  for (const Slice& slice : owned_in(unit, range)) {
    const SlicePart part = overlap(slice, range);
    if (part.numel == 0) continue;
    reader.read(tensors[static_cast<std::size_t>(slice.param)], state, part.begin,
                out.subspan(static_cast<std::size_t>(part.offset - first), static_cast<std::size_t>(part.numel)));
  }
}

}  // namespace

std::vector<int> numbers_of_states(const std::filesystem::path& folder, const std::vector<std::string>& saved,
                                   const std::vector<std::string>& states, const ApartCopies& copies) {
  if (auto numbers = SavedStates::find(saved, states, copies)) return *std::move(numbers);
  refuse_checkpoint(folder, fmt::format("its optimizer keeps [{}], and this optimizer keeps [{}]",
                                        fmt::join(saved, ", "), fmt::join(states, ", ")));
}

CheckpointLoad::CheckpointLoad(RankEngine& engine, const std::filesystem::path& folder, const FileCalls& calls,
                               const std::function<void(const Manifest&)>& check,
                               std::span<const std::string> whole_model)
    : engine_(engine), folder_(folder) {
  engine.states().pause();
  Communicator& comm = engine.resources().comm;
  require_same_outcome(comm, folder.string(), [&] {
    reader_ = std::make_unique<CheckpointReader>(folder, calls, largest_unit_bytes(engine));
    numbers_ = numbers_in(*reader_, engine);
    require_same_model(*reader_, numbers_, engine, whole_model);
    file_ = static_cast<std::size_t>(comm.rank()) % reader_->manifest().files.size();
    factor_files_ = files_of_factors(reader_->manifest().files, file_, engine, folder.string());
    for (const ParamSpec& spec : engine.specs()) tensors_.push_back(reader_->find(spec.name));
    check(reader_->manifest());
    expect_held(*reader_, tensors_, numbers_, engine);
  });
}

CheckpointLoad::~CheckpointLoad() = default;

LoadedCheckpoint CheckpointLoad::fill() {
  LoadedCheckpoint loaded;
  StateAccess& states = engine_.states();
  require_same_outcome(engine_.resources().comm, folder_.string(), [&] {
    for (const Unit& unit : engine_.units()) {
      for (int which = 0; which < states.contents().num_saved_states(unit.index); ++which) {
        if (!states.contents().keeps(unit.index, which)) continue;
        states.write_held(unit.index, which, [&](std::int64_t first, std::span<float> out) {
          fill_held(*reader_, tensors_, unit, number_of(numbers_, unit, which), first, out);
        });
      }
    }
    loaded.extras = reader_->read_extras(static_cast<int>(file_));
    for (const std::size_t file : factor_files_)
      take_factors(file == file_ ? loaded.extras : reader_->read_extras(static_cast<int>(file)), engine_);
  });
  loaded.manifest = reader_->manifest();
  loaded.manifest.run.erase(kStateSumsKey);  // written by the save, not by the program
  EngineProgress progress{.steps = loaded.manifest.steps,
                          .skipped = loaded.manifest.skipped,
                          .skipped_in_a_row = loaded.manifest.skipped_in_a_row,
                          .delayed = loaded.manifest.delayed,
                          .loss_scale = loaded.manifest.loss_scale};
  for (const int tensor : tensors_)
    progress.updates.push_back(loaded.manifest.tensors[static_cast<std::size_t>(tensor)].updates);
  states.set_progress(progress);
  return loaded;
}

LoadedCheckpoint load_checkpoint(RankEngine& engine, const std::filesystem::path& folder, const FileCalls& calls,
                                 const LoadCalls& on) {
  CheckpointLoad load(engine, folder, calls, on.check);
  if (on.fetch) on.fetch(load.reader());
  on.begin();
  return load.fill();
}

}  // namespace zero
