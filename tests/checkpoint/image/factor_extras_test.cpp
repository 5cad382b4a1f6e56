// States of rows and columns in checkpoints: any world restores them, and a checkpoint without them is refused.
#include "zero/checkpoint/image/factor_extras.h"

#include <gtest/gtest.h>

#include "tests/checkpoint/saved_model.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

AttachOptions adafactor(int stage) {
  return {.stage = stage, .optimizer = AdafactorOptions{.weight_decay = 0.1}};
}

// The weights after steps [from, to), with the same gradients on every rank. `loads`: loads `path` first; otherwise
// saves there at the end.
std::vector<std::uint32_t> run(int world, int stage, const std::filesystem::path& path, int from, int to, bool loads) {
  std::vector<std::uint32_t> weights;
  on_ranks(world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), adafactor(stage));
    model.compute_as(0);
    if (loads) load_checkpoint(model.engine(), path);
    train_steps(model, from, to, 1);
    if (!loads) save_now(model.engine(), path);
    const auto bits = model.weight_bits();
    if (comm.rank() == 0) weights = bits;
  });
  return weights;
}

TEST(FactorExtrasOnAnyDevice, AnyWorldContinuesWithSameBits) {
  const TemporaryFolder folder;
  const auto expected = run(1, 3, folder / "whole", 0, 6, false);
  for (const int from : {1, 4}) {
    const auto path = folder / std::to_string(from);
    run(from, from == 1 ? 0 : 3, path, 0, 3, false);
    for (const int to : {1, 2, 4})
      for (const int stage : {1, 3})
        EXPECT_EQ(run(to, stage, path, 3, 6, true), expected) << from << " ranks to " << to << ", stage " << stage;
  }
}

TEST(FactorExtras, AreInEveryFileByParameter) {
  const TemporaryFolder folder;
  run(2, 3, folder / "saved", 0, 1, false);
  CheckpointReader reader(folder / "saved");
  ASSERT_EQ(reader.manifest().files.size(), 2U);
  for (const SavedFile& file : reader.manifest().files) {
    const auto& extras = file.extras;
    EXPECT_EQ(extras.size(), 8U);
    const auto found = std::ranges::find(extras, "factor/col_var/h.1.weight", &SavedExtra::name);
    ASSERT_NE(found, extras.end());
    EXPECT_EQ(found->shape, std::vector<std::int64_t>{6});
  }
}

TEST(FactorExtras, MissingOnesAreNamed) {
  on_ranks(1, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), adafactor(3));
    std::vector<SavedFile> files(2);
    std::vector<SavedExtra>& saved = files.back().extras;
    for (const Extra& extra : factor_extras(model.engine()))
      saved.push_back({extra.name, extra.dtype, extra.shape, 0, std::ssize(extra.bytes)});
    const auto found = [&] { return files_of_factors(files, 0, model.engine(), "x"); };
    EXPECT_EQ(found(), std::set<std::size_t>{1}) << "of a section on another rank";
    files.front().extras.push_back(saved.front());
    EXPECT_EQ(found(), (std::set<std::size_t>{0, 1}));
    files.front().extras.clear();
    saved.front().shape.front() += 1;
    EXPECT_TRUE(says(message_of<ConfigError>(found), "has no factor/row_var/wte of 11 fp32 values"));
    saved.clear();
    EXPECT_TRUE(says(message_of<ConfigError>(found), "has no factor/row_var/wte of 11 fp32 values"));
  });
}

TEST(FactorExtras, RefusesAnotherOptimizersCheckpoint) {
  const TemporaryFolder folder;
  const auto path = folder / "saved";
  run(1, 3, path, 0, 1, false);
  const auto loaded_by = [&](const AttachOptions& options, const std::filesystem::path& from) {
    return message_of<Error>([&] {
      on_ranks(1, [&](Communicator& comm) {
        ScriptedModel model(comm, small_specs(), options);
        load_checkpoint(model.engine(), from);
      });
    });
  };
  EXPECT_TRUE(says(loaded_by({}, path), "its optimizer keeps [parameter, variance]"));
  on_ranks(1, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {});
    save_now(model.engine(), folder / "adamw");
  });
  EXPECT_TRUE(says(loaded_by(adafactor(3), folder / "adamw"), "this optimizer keeps [parameter, variance]"));
}

}  // namespace
}  // namespace zero
