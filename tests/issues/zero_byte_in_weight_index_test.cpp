// "1.safetensors\u0000.txt" in an index of weights is valid JSON, but its name has a zero byte. For the system the name
// ended there, so a file was read that the index does not name. Found by fuzzing.
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/safetensors_writer.h"
#include "zero/checkpoint/safetensors_set.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

TEST(ZeroByteInWeightIndex, EndsNoName) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "1.safetensors", {{.name = "a", .dtype = ElementType::kF32}});
  const float value = 1;
  writer.write("a", 0, std::as_bytes(std::span(&value, 1)));
  writer.commit();
  const auto index = folder.write("m.index.json", R"({"weight_map": {"a": "1.safetensors\u0000.txt"}})");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { SafetensorsSet::open(index, "model.init"); }),
                   R"("1.safetensors\u0000.txt" is not the name of a file in its own folder)"));
}

}  // namespace
}  // namespace zero
