// Law 2 for placements of a real model: a gpt2 whose states and activations are on any tier. At every stage it has the
// loss bits, gradient norms and parameters of a gpt2 that keeps everything on the device. RC_PARAMS="max_success=1000"
// draws more than 25 random cells (100 in the full tier).
#include <array>
#include <map>
#include <tuple>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "app/models/gpt2.h"
#include "tests/support/random_fractions.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::Subject;

[[maybe_unused]] const bool sampled = sample_properties(12);

constexpr int kSteps = 3;

// The tensors that a block keeps for its backward pass, and their tier: all tensors, or only its input.
enum class Keeps : std::uint8_t { kAll, kInput, kInputOnHost, kInputOnDisk };
constexpr std::array kAllKeeps{Keeps::kAll, Keeps::kInput, Keeps::kInputOnHost, Keeps::kInputOnDisk};

std::string name_of(Keeps keeps) {
  static constexpr std::array kNames{"KeepsAll", "KeepsInput", "ParksOnHost", "ParksOnDisk"};
  return kNames[static_cast<std::size_t>(keeps)];
}

struct Cell {
  int world = 1;
  int stage = 0;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
  Reduce reduce = Reduce::kEach;
  Keeps keeps = Keeps::kAll;
  bool reduces_each() const { return accumulate == 1 || reduce == Reduce::kEach; }
};

std::string upper_name_of(DType dtype) {
  return dtype == DType::kFloat32 ? "Fp32" : dtype == DType::kBFloat16 ? "Bf16" : "Fp16";
}

std::string describe(const Cell& cell) {
  std::string name =
      "World" + std::to_string(cell.world) + "Stage" + std::to_string(cell.stage) + upper_name_of(cell.dtype);
  if (cell.accumulate > 1)
    name += "Accumulate" + std::to_string(cell.accumulate) + (cell.reduce == Reduce::kEach ? "Each" : "Last");
  return name + name_of(cell.keeps);
}

AttachOptions options_of(const Cell& cell) {
  std::optional<LossScaleOptions> loss_scale;
  if (cell.dtype == DType::kFloat16) loss_scale = LossScaleOptions{.value = 2048};
  return {.stage = cell.stage,
          .optimizer = AdamW{.lr = 1e-2, .weight_decay = 0.1},
          .clip = 0.5,
          .reduce = cell.reduce,
          .accumulate = cell.accumulate,
          .dtype = cell.dtype,
          .loss_scale = loss_scale};
}

// Blocks have fifty thousand parameters. On three ranks, a shard has several pieces that can be on different tiers.
Subject small_gpt2(Keeps keeps, const std::string& folder) {
  std::shared_ptr<ActivationStore> store;
  if (keeps == Keeps::kInputOnHost || keeps == Keeps::kInputOnDisk) {
    const Tier tier = keeps == Keeps::kInputOnHost ? Tier::kHost : Tier::kDisk;
    store =
        std::make_shared<ActivationStore>(ActivationOffloadOptions{.tier = tier, .disk = {folder}, .checksums = true});
  }
  Gpt2 net(Gpt2Options{.layers = 3,
                       .width = 64,
                       .heads = 2,
                       .context = 10,
                       .vocab = 11,
                       .checkpoint = keeps != Keeps::kAll,
                       .checkpoint_options = store ? store->checkpoint_options() : CheckpointOptions{}});
  return {net.ptr(), [net, store](int step, int micro, int rank) mutable {
            const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
            return tests::next_token_loss(net->forward(tokens).to(torch::kFloat), tokens);
          }};
}

class PlacementBits : public ::testing::Test {
 protected:
  RunResult run(const Cell& cell, const AttachOptions& options) const {
    return tests::train(cell.world, kSteps, options, [&] { return small_gpt2(cell.keeps, folder()); });
  }

  // The run at stage 0 that keeps all states and activations on the device.
  const RunResult& resident(Cell cell) {
    const auto key = std::tuple(cell.world, cell.dtype, cell.accumulate, cell.reduces_each());
    const auto found = resident_.find(key);
    if (found != resident_.end()) return found->second;
    cell.stage = 0;
    cell.keeps = Keeps::kAll;
    return resident_.emplace(key, run(cell, options_of(cell))).first->second;
  }

  // Returns "" if the bits are equal, otherwise the name of a value that differs.
  std::string difference(const Cell& cell, const AttachOptions& options) {
    const RunResult& expected = resident(cell);
    const RunResult seen = run(cell, options);
    if (seen.loss_bits != expected.loss_bits) return "losses";
    if (seen.grad_norms != expected.grad_norms) return "gradient norms";
    if (!tests::same_bits(seen.parameters, expected.parameters)) return "parameters";
    if (!tests::same_bits(seen.given_back, expected.given_back)) return "parameters that were given back";
    return "";
  }

  std::string folder() const { return folder_.path().string(); }

 private:
  TemporaryFolder folder_;
  std::map<std::tuple<int, DType, int, bool>, RunResult> resident_;
};

// Every stage, type, way to accumulate and way to keep activations. All states are on the device, or on disk as far as
// the stage allows. Worlds take turns, so each stage and each way to keep activations is combined with each world.
TEST_F(PlacementBits, EverythingOnDiskMatchesDevice) {
  Sweep sweep(11);
  int turn = 0;  // index over types and ways to accumulate
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const auto& [accumulate, reduce] : {std::pair{1, Reduce::kEach}, {3, Reduce::kEach}, {3, Reduce::kLast}}) {
      ++turn;
      for (int stage = 0; stage <= 3; ++stage) {
        for (const Keeps keeps : kAllKeeps) {
          if (!sweep.takes_next()) continue;
          const Cell cell{1 + (turn + stage + static_cast<int>(keeps)) % 4, stage, dtype, accumulate, reduce, keeps};
          AttachOptions options = options_of(cell);
          EXPECT_EQ(difference(cell, options), "") << describe(cell) << ", states on the device";
          options.offload.disk = {folder()};
          options.offload.fractions = {
              .parameter = {.disk = stage >= 3 ? 1.0 : 0.0},
              .gradient = {.disk = stage >= 2 && cell.reduces_each() ? 1.0 : 0.0},
              .optimizer = {.disk = 1},
          };
          options.device_memory = MemoryBudget::parse("min");
          options.offload.host_memory = MemoryBudget::parse("min");
          EXPECT_EQ(difference(cell, options), "") << describe(cell) << ", states on disk";
        }
      }
    }
  }
}

std::string text_of(const TierFractions& fractions) {
  return fmt::format("{{host {}, disk {}}}", fractions.host, fractions.disk);
}

TEST_F(PlacementBits, EveryPlacementMatchesDevice) {
  const bool held = rc::check([this] {
    const Cell cell{*rc::gen::element(1, 2, 3, 4),
                    *rc::gen::element(0, 1, 2, 3, 3),
                    *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                    *rc::gen::element(1, 3),
                    *rc::gen::element(Reduce::kEach, Reduce::kLast),
                    *rc::gen::elementOf(kAllKeeps)};
    AttachOptions options = options_of(cell);
    if (*rc::gen::arbitrary<bool>()) options.device_memory = MemoryBudget::parse("min");
    options.offload = {.fractions = tests::random_state_fractions(cell.stage, cell.reduces_each()),
                       .automatic = false,
                       .disk = {folder()}};
    if (*rc::gen::element(0, 1, 2) == 0) options.offload.link_bytes_per_second = 4e9;
    const StateFractions& fractions = options.offload.fractions;
    RC_LOG() << describe(cell) << ", parameter " << text_of(fractions.parameter) << ", gradient "
             << text_of(fractions.gradient) << ", optimizer " << text_of(fractions.optimizer) << ", link "
             << options.offload.link_bytes_per_second << tests::placement_of(options);
    RC_ASSERT(difference(cell, options) == "");
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace zero
