#include "zero/train/mlp_task.h"

#include <gtest/gtest.h>

#include "tests/train/some_tasks.h"

namespace zero {
namespace {

TEST(MlpTask, SizesMustBeTheDatas) {
  EXPECT_TRUE(says(refusal_of_task(some_mlp({5, 3}), kImageShape), "a row of the data has 4 numbers"));
  EXPECT_TRUE(says(refusal_of_task(some_mlp({4, 2}), kImageShape), "the data has 3 classes"));
  EXPECT_TRUE(says(refusal_of_task(some_mlp({4, 2}), kTableShape), "the target is one number"));
  EXPECT_NO_THROW(make_task(some_mlp({4, 7, 10}), kImageShape, 1)) << "more outputs than labels seen";
}

}  // namespace
}  // namespace zero
