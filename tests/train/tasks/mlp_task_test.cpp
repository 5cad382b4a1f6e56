#include <gtest/gtest.h>

#include "app/train/tasks/tasks.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

TEST(MlpTask, SizesMustBeTheDatas) {
  const std::string first = refusal_of_task(some_mlp({5, 3}), kImageShape);
  EXPECT_TRUE(says(first, "model.sizes = [5, 3]: the first size is 5, and a row of the data has 4 numbers"));
  EXPECT_TRUE(says(first, "for example [4, 3]"));
  const std::string last = refusal_of_task(some_mlp({4, 7, 2}), kImageShape);
  EXPECT_TRUE(says(last, "model.sizes = [4, 7, 2]: the last size is 2, and the data has 3 classes"));
  EXPECT_TRUE(says(last, "for example [4, 7, 3]"));
  const std::string number = refusal_of_task(some_mlp({4, 2}), kTableShape);
  EXPECT_TRUE(says(number, "the last size is 2, and the target is one number"));
  EXPECT_TRUE(says(number, "for example [4, 1]"));
  EXPECT_NO_THROW(make_task(some_mlp({4, 7, 10}), kImageShape, 1)) << "more outputs than labels seen";
}

}  // namespace
}  // namespace zero
