#include "zero/engine/reduce/gradient_arrivals.h"

#include <gtest/gtest.h>

#include "tests/engine/thread_ranks.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

// Unit h.0 has two parameters with elements and one without. Unit h.1 has one parameter.
struct Fixture {
  std::vector<Unit> units = make_units({{.name = "h.0.a", .shape = {20}},
                                        {.name = "h.0.b", .shape = {3}},
                                        {.name = "h.0.none", .shape = {0}},
                                        {.name = "h.1.c", .shape = {50}}},
                                       {});
  GradientArrivals arrivals{units, 4};
};

TEST(GradientArrivals, AllParametersCompleteAUnit) {
  Fixture f;
  f.arrivals.arrive(0);
  f.arrivals.arrive(0);
  EXPECT_FALSE(f.arrivals.complete(0)) << "one parameter, not two";
  EXPECT_TRUE(f.arrivals.open(0));
  f.arrivals.arrive(1);
  EXPECT_TRUE(f.arrivals.complete(0)) << "the unit does not wait for a parameter without elements";
  EXPECT_FALSE(f.arrivals.open(1));
}

TEST(GradientArrivals, ReducedGradientMayArriveAgain) {
  Fixture f;
  f.arrivals.arrive(3);
  EXPECT_FALSE(f.arrivals.reduced(1));
  f.arrivals.take(1);
  EXPECT_TRUE(f.arrivals.reduced(1));
  EXPECT_FALSE(f.arrivals.open(1));
  EXPECT_FALSE(f.arrivals.has(3));
  f.arrivals.arrive(3);
  EXPECT_TRUE(f.arrivals.complete(1));
  EXPECT_TRUE(f.arrivals.reduced(1));
}

TEST(GradientArrivals, BackwardForgetsArrivalsStepDoesNot) {
  Fixture f;
  f.arrivals.arrive(0);
  f.arrivals.arrive(2);
  f.arrivals.take(0);
  f.arrivals.end_backward();
  EXPECT_EQ(f.arrivals.num_passes(), 1);
  EXPECT_FALSE(f.arrivals.reduced(0));
  EXPECT_FALSE(f.arrivals.has(0));
  EXPECT_EQ(f.arrivals.present(), (std::vector<bool>{true, false, true, false}));
  f.arrivals.clear();
  EXPECT_EQ(f.arrivals.num_passes(), 0);
  EXPECT_EQ(f.arrivals.present(), std::vector<bool>(4, false));
}

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
