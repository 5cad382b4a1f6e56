// foreign_reader.py was written only from docs/checkpoint_format.md. It reads the engine's states from a checkpoint.
#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "zero/base/files/sha256.h"

#include "tests/checkpoint/saved_model.h"
#include "tests/support/command_end.h"
#include "tests/support/message_of.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

CommandEnd read_by_a_stranger(const fs::path& checkpoint) {
  return end_of_command(fmt::format("python3 '{}/tests/checkpoint/foreign_reader.py' '{}' 2>&1", built::kSourceFolder,
                                    checkpoint.string()));
}

// A line of foreign_reader.py.
std::string line_of(std::string_view name, std::string_view where, const std::vector<std::int64_t>& shape,
                    std::span<const std::byte> bytes) {
  return fmt::format("{} {} {} {}\n", name, where, fmt::join(shape, "x"), sha256_hex(bytes));
}

Extra extra_of(int rank) {
  return {.name = "mine",
          .dtype = ElementType::kU8,
          .shape = {1, 3},
          .bytes = {std::byte{7}, std::byte{8}, static_cast<std::byte>(rank)}};
}

// The bytes of each unit's states, joined from all ranks.
class Held {
 public:
  void add(RankEngine& engine) {
    engine.states().pause();
    for (const Unit& unit : engine.units()) {
      for (int state = 0; state < engine.states().contents().num_saved_states(unit.index); ++state) {
        const std::size_t size = size_of(engine.states().contents().saved_dtype(unit.index, state));
        engine.states().read_shard(unit.index, state, [&](std::int64_t first, std::span<const std::byte> elements) {
          const std::scoped_lock lock(mutex_);
          auto& whole = states_[{unit.index, state}];
          whole.resize(static_cast<std::size_t>(unit.numel) * size);
          const std::size_t begin = std::min(static_cast<std::size_t>(first) * size, whole.size());
          const auto real = elements.first(std::min(elements.size(), whole.size() - begin));  // without padding
          std::ranges::copy(real, whole.begin() + static_cast<std::ptrdiff_t>(begin));
        });
      }
    }
  }

  // Lines for every parameter and state, in the order of the model.
  std::string lines(const ScriptedModel& model, const std::vector<std::string>& names) const {
    std::map<std::pair<int, int>, std::string> lines;
    for (const auto& [key, whole] : states_) {
      const auto [unit_index, state] = key;
      const Unit& unit = model.units()[static_cast<std::size_t>(unit_index)];
      const std::size_t size = whole.size() / static_cast<std::size_t>(unit.numel);
      for (const Slice& slice : unit.slices) {
        const ParamSpec& spec = model.specs()[static_cast<std::size_t>(slice.param)];
        const auto bytes = std::span(whole).subspan(static_cast<std::size_t>(slice.offset) * size,
                                                    static_cast<std::size_t>(slice.numel) * size);
        lines[{slice.param, state}] = line_of(spec.name, names[static_cast<std::size_t>(state)], spec.shape, bytes);
      }
    }
    std::string all;
    for (const auto& [key, line] : lines) all += line;
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::vector<std::byte>> states_;
};

// The expected lines of the reader for `path`.
std::string save(const Cell& cell, const fs::path& path) {
  Held held;
  std::string lines;
  on_ranks(cell.world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(cell.dtype), options_of(cell));
    train_steps(model, 0, 3, 1);
    SaveContents contents{.run = {{"step", "3"}}, .config = "[train]\n", .extras = {extra_of(comm.rank())}};
    CheckpointSave(model.engine(), path, std::move(contents), SaveMode::kSync).wait();
    held.add(model.engine());
    comm.barrier({.control = true}).wait();
    if (comm.rank() == 0) lines = held.lines(model, model.engine().states().names());
  });
  for (int rank = 0; rank < cell.world; ++rank) {
    const Extra extra = extra_of(rank);
    lines += line_of(extra.name, fmt::format("rank-{:05}.safetensors", rank), extra.shape, extra.bytes);
  }
  return lines;
}

TEST(ForeignReader, ReadsWhatTheEngineHolds) {
  const TemporaryFolder folder;
  for (const Cell& cell : {Cell{.world = 1, .stage = 3}, Cell{.world = 2, .stage = 1, .dtype = DType::kBFloat16},
                           Cell{.world = 3, .stage = 0}, Cell{.world = 4, .stage = 3, .dtype = DType::kBFloat16}}) {
    const fs::path path = folder / fmt::format("ranks-{}", cell.world);
    const std::string expected = save(cell, path);
    EXPECT_TRUE(says(expected, "h.1.table parameter 40 "));
    const CommandEnd end = read_by_a_stranger(path);
    EXPECT_EQ(end.status, 0) << end.text;
    EXPECT_EQ(end.text, expected) << cell.world << " ranks";
  }
}

TEST(ForeignReader, FindsOtherSizesAndChangedManifests) {
  const TemporaryFolder folder;
  save({}, folder / "c");
  const fs::path file = folder / "c/rank-00001.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  CommandEnd end = read_by_a_stranger(folder / "c");
  EXPECT_EQ(end.status, 1);
  EXPECT_TRUE(says(end.text, "rank-00001.safetensors has another size"));
  std::fstream manifest(folder / "c/manifest.json", std::ios::in | std::ios::out | std::ios::binary);
  manifest.seekp(-4, std::ios::end);
  manifest.put(' ');
  manifest.close();
  end = read_by_a_stranger(folder / "c");
  EXPECT_EQ(end.status, 1);
  EXPECT_TRUE(says(end.text, "another SHA-256"));
}

}  // namespace
}  // namespace zero
