#include "zero/base/files/plugin_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(PluginFile, UnknownNameHasNoFile) {
  EXPECT_EQ(plugin_file("libzero_no_such_plugin.so"), "");
}

TEST(PluginFile, LiesBesideTheProgram) {
  const auto beside = std::filesystem::canonical("/proc/self/exe").parent_path() / "libzero_plugin_file_test.so";
  std::ofstream{beside};
  EXPECT_EQ(plugin_file("libzero_plugin_file_test.so"), beside.string());
  std::filesystem::remove(beside);
}

}  // namespace
}  // namespace zero
