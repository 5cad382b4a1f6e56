#include "app/train/weights/model_files.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/companion_files.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// "caf\xe9" is Latin-1, for which classes.json has a replacement character.
TEST(ModelFiles, ClassNamesNeedNotBeUtf8) {
  const TemporaryFolder folder;
  const std::vector<std::string> names{"caf\xe9", "tea"};
  folder.write("classes.json", classes_json(names));
  EXPECT_NO_THROW(require_classes_of_run(folder.path(), names));
  const std::vector<std::string> others{"tea", "caf\xe9"};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { require_classes_of_run(folder.path(), others); }),
                   "the run began with the classes caf"));
}

}  // namespace
}  // namespace zero
