#include "zero/engine/reduce/dropped_gradients.h"

#include <gtest/gtest.h>

#include "tests/engine/thread_ranks.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(DroppedGradients, OtherRanksGradientsCount) {
  on_ranks(3, [](Communicator& comm) {
    const bool last = comm.rank() == 2;
    EXPECT_FALSE(leaves_gradients(comm, {true, false}, {true, false}));
    EXPECT_TRUE(leaves_gradients(comm, {true, false}, {!last, last}));
  });
}

TEST(DroppedGradients, RankThatDropsOthersIsNamed) {
  on_ranks(3, [](Communicator& comm) {
    const bool other = comm.rank() == 1;
    const std::vector<bool> dropped{true, other};
    EXPECT_TRUE(says(message_of<ConfigError>([&] {
                       leaves_gradients(comm, dropped, {true, true});
                     }),
                     "zero_grad = rank 1"));
  });
}

}  // namespace
}  // namespace zero
