// Checkpoints of copies that train apart have the states of each copy, and the states that all copies share.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/checkpoint/in_memory_checkpoints.h"

#include "tests/checkpoint/launcher.h"
#include "tests/checkpoint/saved_model.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct Apart {
  int world = 4;
  int group = 2;
  int stage = 3;
  bool local = true;
  double topk = 0;
  LocalSteps steps{.steps = 3};
};

// Three steps a round.
AttachOptions engine_options(const Apart& ranks) {
  AttachOptions options{.stage = ranks.stage, .group = ranks.group, .clip = 0.5};
  if (ranks.local) options.local = ranks.steps;
  options.wire.outer_topk = ranks.topk;
  return options;
}

std::string name_of(const Apart& ranks) {
  return fmt::format("{} ranks in groups of {}, stage {}{}", ranks.world, ranks.group, ranks.stage,
                     ranks.local ? ", apart" : "");
}

void save_after(const Apart& ranks, int steps, const std::filesystem::path& path) {
  on_ranks(ranks.world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options(ranks));
    train_steps(model, 0, steps, 1);
    save_now(model.engine(), path);
  });
}

void go_on(const Apart& ranks, const std::filesystem::path& path, int from, int to, const std::filesystem::path& end) {
  on_ranks(ranks.world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options(ranks));
    load_checkpoint(model.engine(), path);
    train_steps(model, from, to, 1);
    save_now(model.engine(), end);
  });
}

TEST(LocalStepsSavedSlow, ContinuesFromAnywhereInARound) {
  const TemporaryFolder folder;
  save_after({}, 7, folder / "whole");
  for (const int steps : {1, 2, 3, 5}) {
    const auto part = folder / fmt::format("part{}", steps), end = folder / fmt::format("end{}", steps);
    save_after({.stage = steps % 4}, steps, part);
    go_on({}, part, steps, 7, end);
    EXPECT_EQ(elements(end), elements(folder / "whole")) << steps;
  }
}

// Saves between the step that takes a fragment's differences and the step that mixes its sums in.
TEST(LocalStepsSavedSlow, ContinuesWithFragmentsInFlight) {
  const TemporaryFolder folder;
  const Apart ranks{.steps = {.steps = 4, .fragments = 2, .overlap = 2}};
  save_after(ranks, 7, folder / "whole");
  for (const int steps : {2, 3, 4, 5}) {
    const auto part = folder / fmt::format("part{}", steps), end = folder / fmt::format("end{}", steps);
    save_after({.stage = steps % 4, .steps = ranks.steps}, steps, part);
    go_on(ranks, part, steps, 7, end);
    EXPECT_EQ(elements(end), elements(folder / "whole")) << steps;
  }
}

// A copy's residual is one of its own states.
TEST(LocalStepsSavedSlow, ContinuesWithResiduals) {
  const TemporaryFolder folder;
  const Apart topk{.topk = 0.1};
  save_after(topk, 7, folder / "whole");
  const Elements whole = elements(folder / "whole");
  const Manifest manifest = read_manifest(folder / "whole");
  ASSERT_EQ(manifest.states[5], "outer_residual@0");
  ASSERT_EQ(manifest.states[9], "outer_residual@1");
  EXPECT_NE(whole.at("h.1.weight/5"), whole.at("h.1.weight/9"));
  for (const int steps : {2, 4}) {
    const auto part = folder / fmt::format("part{}", steps), end = folder / fmt::format("end{}", steps);
    save_after({.stage = steps / 2, .topk = 0.1}, steps, part);
    go_on(topk, part, steps, 7, end);
    EXPECT_EQ(elements(end), whole) << steps;
  }
  const Apart others{.world = 2, .group = 1, .stage = 0, .topk = 0.1};
  go_on(others, folder / "whole", 7, 7, folder / "others");
  EXPECT_EQ(elements(folder / "others"), whole) << "as many copies, each on one rank";
}

TEST(LocalStepsSavedSlow, ResidualsAndWholeSendsExchangeCheckpoints) {
  const TemporaryFolder folder;
  save_after({.topk = 0.1}, 4, folder / "topk");
  go_on({}, folder / "topk", 4, 4, folder / "all");
  go_on({.topk = 0.1}, folder / "all", 4, 4, folder / "again");
  const Elements topk = elements(folder / "topk"), all = elements(folder / "all"), again = elements(folder / "again");
  for (const SavedTensor& tensor : read_manifest(folder / "topk").tensors) {
    if (!tensor.trainable) continue;
    const auto of = [&](const Elements& saved, int state) {
      return saved.at(fmt::format("{}/{}", tensor.name, state));
    };
    EXPECT_EQ(of(all, 1), of(topk, 1)) << "outer momentum";
    EXPECT_EQ(of(all, 5), of(topk, 6)) << "weights of copy 1";
    EXPECT_EQ(of(again, 6), of(topk, 6));
    for (const std::uint32_t bits : of(again, 5)) ASSERT_EQ(bits, 0U) << "the residuals are still zeros";
  }
}

TEST(LocalStepsSavedSlow, OtherRanksAndStagesLoadThem) {
  const TemporaryFolder folder;
  save_after({}, 4, folder / "saved");
  for (const Apart& to : {Apart{2, 1, 1}, Apart{4, 2, 0}, Apart{6, 3, 2}, Apart{2, 0, 3}}) {
    const auto end = folder / name_of(to);
    go_on(to, folder / "saved", 4, 4, end);
    EXPECT_EQ(elements(end), elements(folder / "saved")) << name_of(to);
  }
}

TEST(LocalStepsSavedSlow, LauncherMemoryServesThem) {
  Launcher launcher;
  const TemporaryFolder folder;
  save_after({}, 6, folder / "whole");
  on_ranks(4, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options({}));
    InMemoryCheckpoints kept(launcher.connect(), "run");
    train_steps(model, 0, 2, 1);
    EXPECT_TRUE(kept.save(model.engine(), 2, {}));
  });
  on_ranks(4, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options({}));
    InMemoryCheckpoints kept(launcher.connect(), "run");
    load_checkpoint(model.engine(), kept.path_of(2), kept.files_of(2));
    train_steps(model, 2, 6, 1);
    save_now(model.engine(), folder / "end");
  });
  EXPECT_EQ(elements(folder / "end"), elements(folder / "whole"));
}

// State 0 of every tensor has the weights that the copies share since the third step. Exports and other programs read
// it.
TEST(LocalStepsSavedSlow, TheirParametersAreTheSharedOnes) {
  const TemporaryFolder folder;
  save_after({}, 3, folder / "merged");
  save_after({}, 5, folder / "apart");
  const Elements merged = elements(folder / "merged"), apart = elements(folder / "apart");
  const Manifest manifest = read_manifest(folder / "apart");
  EXPECT_EQ(manifest.states[0], "parameter");
  ASSERT_EQ(manifest.states[2], "parameter@0");
  ASSERT_EQ(manifest.states[5], "parameter@1");
  for (const SavedTensor& tensor : manifest.tensors) {
    EXPECT_EQ(apart.at(tensor.name + "/0"), merged.at(tensor.name + "/0")) << tensor.name;
    if (!tensor.trainable) continue;
    EXPECT_EQ(merged.at(tensor.name + "/2"), merged.at(tensor.name + "/0")) << tensor.name;
    EXPECT_EQ(merged.at(tensor.name + "/5"), merged.at(tensor.name + "/0")) << tensor.name;
    EXPECT_NE(apart.at(tensor.name + "/2"), apart.at(tensor.name + "/5")) << tensor.name;
  }
}

TEST(LocalStepsSavedSlow, FirstSharedWeightsAreTheInitial) {
  const TemporaryFolder folder;
  save_after({}, 0, folder / "apart");
  save_after({.group = 0, .local = false}, 0, folder / "one");
  const Elements apart = elements(folder / "apart"), one = elements(folder / "one");
  for (const SavedTensor& tensor : read_manifest(folder / "one").tensors)
    EXPECT_EQ(apart.at(tensor.name + "/0"), one.at(tensor.name + "/0")) << tensor.name;
}

TEST(LocalStepsSavedSlow, OneModelTakesSharedWeights) {
  const TemporaryFolder folder;
  save_after({}, 5, folder / "apart");
  go_on({2, 0, 1, /*local=*/false}, folder / "apart", 5, 5, folder / "one");
  const Elements apart = elements(folder / "apart"), one = elements(folder / "one");
  for (const SavedTensor& tensor : read_manifest(folder / "one").tensors) {
    EXPECT_EQ(one.at(tensor.name + "/0"), apart.at(tensor.name + "/0")) << tensor.name;
    if (!tensor.trainable) continue;
    EXPECT_EQ(one.at(tensor.name + "/1"), apart.at(tensor.name + "/3")) << "exp_avg of " << tensor.name;
    EXPECT_EQ(one.at(tensor.name + "/2"), apart.at(tensor.name + "/4")) << "exp_avg_sq of " << tensor.name;
  }
}

TEST(LocalStepsSavedSlow, OtherCopiesBeginWithSharedWeights) {
  const TemporaryFolder folder;
  save_after({}, 5, folder / "two");
  go_on({3, 1, 2}, folder / "two", 5, 5, folder / "three");
  const Elements two = elements(folder / "two"), three = elements(folder / "three");
  for (const SavedTensor& tensor : read_manifest(folder / "three").tensors) {
    EXPECT_EQ(three.at(tensor.name + "/0"), two.at(tensor.name + "/0")) << tensor.name;
    if (!tensor.trainable) continue;
    EXPECT_EQ(three.at(tensor.name + "/1"), two.at(tensor.name + "/1")) << "outer momentum of " << tensor.name;
    for (int copy = 0; copy < 3; ++copy) {
      const auto of = [&](int state) { return fmt::format("{}/{}", tensor.name, 2 + 3 * copy + state); };
      EXPECT_EQ(three.at(of(0)), two.at(tensor.name + "/0")) << "weights of copy " << copy;
      EXPECT_EQ(three.at(of(1)), two.at(fmt::format("{}/{}", tensor.name, 3 + 3 * (copy % 2)))) << "copy " << copy;
    }
  }
}

TEST(LocalStepsSavedSlow, CopiesTakeWhatOneModelSaved) {
  const TemporaryFolder folder;
  save_after({2, 0, 2, /*local=*/false}, 2, folder / "one");
  go_on({}, folder / "one", 2, 2, folder / "apart");
  const Elements apart = elements(folder / "apart"), one = elements(folder / "one");
  for (const SavedTensor& tensor : read_manifest(folder / "one").tensors) {
    EXPECT_EQ(apart.at(tensor.name + "/0"), one.at(tensor.name + "/0")) << tensor.name;
    if (!tensor.trainable) continue;
    for (const std::uint32_t bits : apart.at(tensor.name + "/1")) ASSERT_EQ(bits, 0U) << "no outer momentum yet";
    EXPECT_EQ(apart.at(tensor.name + "/2"), one.at(tensor.name + "/0"));
    EXPECT_EQ(apart.at(tensor.name + "/6"), one.at(tensor.name + "/1"));
  }
}

}  // namespace
}  // namespace zero
