#include "app/cli/command/build.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/cli/command.h"
#include "tests/support/message_of.h"
#include "tests/support/this_build.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOther = "0.0.9, commit 0123456789ab";

fs::path folder_of_other_build() {
  return fs::path(built::kCommand).parent_path().parent_path() / "tests" / "other_build";
}

void expect_refused(const Ran& ran, const std::string& library) {
  EXPECT_EQ(ran.status, 2) << ran.output;
  for (const std::string& part : {library, std::string(kOther), std::string(build_name()), std::string("together")})
    EXPECT_NE(ran.errors.find(part), std::string::npos) << part << " in\n" << ran.errors;
}

TEST(Build, IsNamedByVersionAndCommit) {
  EXPECT_TRUE(std::string(build_name()).starts_with(ZERO_VERSION)) << build_name();
}

TEST(Build, RefusesAnotherByBothNames) {
  EXPECT_NO_THROW(require_same_build("lib.so", build_name()));
  const std::string message = message_of<ConfigError>([] { require_same_build("lib.so", kOther); });
  for (const std::string& part : {std::string("lib.so"), std::string(kOther), std::string(build_name())})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Build, LoadedCoreIsOfThisBuild) {
  EXPECT_NO_THROW(require_same_core());
}

// The loader finds this library before the one beside the command, like an old library in a system folder.
TEST(Build, ACommandRefusesAnotherBuildsLibrary) {
  const fs::path library = folder_of_other_build() / "libzero_app.so";
  ASSERT_TRUE(fs::exists(library));
  const Folder folder;
  fs::create_directories(folder.path() / "lib");
  fs::copy_file(library, folder.path() / "lib" / "libzero_app.so");
  folder.write("rows.csv", "1,2\n2,4\n3,6\n4,8\n");
  const Ran ran = folder.zero("train --model.name linear --data.kind csv --data.path rows.csv --train.steps 1",
                              "LD_LIBRARY_PATH=lib");
  expect_refused(ran, "libzero_app.so");
}

TEST(Build, CommandRefusesAnotherCore) {
  if (built::kSanitized) GTEST_SKIP() << "a sanitizer ends a program that has another library preloaded";
  const fs::path library = folder_of_other_build() / "libzero_core.so";
  ASSERT_TRUE(fs::exists(library));
  const Folder folder;
  expect_refused(folder.zero("--version", "LD_PRELOAD='" + library.string() + "'"), "libzero_core.so");
}

}  // namespace
}  // namespace zero::cli
