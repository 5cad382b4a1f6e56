#include "zero/checkpoint/image/saved_states.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

using Names = std::vector<std::string>;

const Names kModel{"parameter", "exp_avg", "exp_avg_sq"};
const Names kCopy{"parameter", "exp_avg", "exp_avg_sq", "outer_momentum", "anchor"};

Names saved_by(int copies) {
  return SavedStates(kCopy, {copies, 0}).names();
}

std::optional<std::vector<int>> found(const Names& saved, const Names& wanted, const ApartCopies& copies) {
  return SavedStates::find(saved, wanted, copies);
}

TEST(SavedStates, OneModelHasTheEnginesStates) {
  const SavedStates states(kModel, {});
  EXPECT_EQ(states.names(), kModel);
  EXPECT_EQ(states.num_of_engine(), 3);
  const SavedState moment = states.of_unit({.trainable = true}, 2);
  EXPECT_EQ(moment.number, 2);
  EXPECT_FALSE(moment.of_copy);
  EXPECT_EQ(found(kModel, kModel, {}), (std::vector{0, 1, 2}));
}

TEST(SavedStates, CopiesSaveSharedThenOwnStates) {
  const SavedStates states(kCopy, {2, 1});
  EXPECT_EQ(states.names(), (Names{"parameter", "outer_momentum", "parameter@0", "exp_avg@0", "exp_avg_sq@0",
                                   "parameter@1", "exp_avg@1", "exp_avg_sq@1"}));
  EXPECT_EQ(states.num_of_engine(), 5);
  const std::vector<int> numbers{5, 6, 7, 1, 0};
  for (int state = 0; state < 5; ++state) {
    const SavedState saved = states.of_unit({.trainable = true}, state);
    EXPECT_EQ(saved.number, numbers[static_cast<std::size_t>(state)]) << state;
    EXPECT_EQ(saved.of_copy, state < 3) << state;
  }
  const SavedState frozen = states.of_unit({.trainable = false}, 0);
  EXPECT_EQ(frozen.number, 0);
  EXPECT_FALSE(frozen.of_copy) << "frozen parameters are alike in all copies";
}

TEST(SavedStates, AsManyCopiesFindTheirOwn) {
  EXPECT_EQ(found(saved_by(3), kCopy, {3, 0}), (std::vector{2, 3, 4, 1, 0}));
  EXPECT_EQ(found(saved_by(3), kCopy, {3, 2}), (std::vector{8, 9, 10, 1, 0}));
}

TEST(SavedStates, OtherCopiesFindStatesInTurn) {
  EXPECT_EQ(found(saved_by(2), kCopy, {3, 1}), (std::vector{0, 6, 7, 1, 0}));
  EXPECT_EQ(found(saved_by(2), kCopy, {3, 2}), (std::vector{0, 3, 4, 1, 0}));
}

// A model without copies takes the moments of the first copy.
TEST(SavedStates, OneModelFindsSharedWeights) {
  EXPECT_EQ(found(saved_by(2), kModel, {}), (std::vector{0, 3, 4}));
}

TEST(SavedStates, CopiesFindAnchorInOneModel) {
  EXPECT_EQ(found(kModel, kCopy, {2, 1}), (std::vector{0, 1, 2, SavedStates::kZeros, 0}));
}

// Each copy has its own residual, the differences that it has not sent yet. With another number of copies all residuals
// begin at zero.
TEST(SavedStates, ResidualsNeedAsManyCopies) {
  const Names kept{"parameter", "exp_avg", "exp_avg_sq", "outer_residual", "outer_momentum", "anchor"};
  const SavedStates states(kept, {2, 1});
  EXPECT_EQ(states.names(),
            (Names{"parameter", "outer_momentum", "parameter@0", "exp_avg@0", "exp_avg_sq@0", "outer_residual@0",
                   "parameter@1", "exp_avg@1", "exp_avg_sq@1", "outer_residual@1"}));
  EXPECT_EQ(states.of_unit({.trainable = true}, 3).number, 9);
  EXPECT_TRUE(states.of_unit({.trainable = true}, 3).of_copy);
  constexpr int kZeros = SavedStates::kZeros;
  EXPECT_EQ(found(states.names(), kept, {2, 1}), (std::vector{6, 7, 8, 9, 1, 0}));
  EXPECT_EQ(found(states.names(), kept, {3, 1}), (std::vector{0, 7, 8, kZeros, 1, 0}))
      << "a different number of copies";
  EXPECT_EQ(found(saved_by(2), kept, {2, 1}), (std::vector{5, 6, 7, kZeros, 1, 0})) << "copies that sent everything";
  EXPECT_EQ(found(kModel, kept, {2, 1}), (std::vector{0, 1, 2, kZeros, kZeros, 0}));
  EXPECT_EQ(found(states.names(), kCopy, {2, 1}), (std::vector{6, 7, 8, 1, 0})) << "copies without residuals";
  EXPECT_EQ(found(states.names(), kModel, {}), (std::vector{0, 3, 4}));
}

TEST(SavedStates, OfAnotherOptimizerAreNotFound) {
  const Names sgd{"parameter", "momentum_buffer"},
      local_sgd{"parameter", "momentum_buffer", "outer_momentum", "anchor"};
  EXPECT_FALSE(found(kModel, sgd, {}));
  EXPECT_FALSE(found(saved_by(2), sgd, {}));
  EXPECT_FALSE(found(saved_by(2), local_sgd, {2, 0}));
  EXPECT_FALSE(found(kModel, local_sgd, {2, 0}));
  EXPECT_FALSE(found({"parameter", "exp_avg", "exp_avg_sq", "ema"}, kModel, {}));
}

}  // namespace
}  // namespace zero
