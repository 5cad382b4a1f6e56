#include "app/cli/command/torch_library.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/cli/command.h"

namespace zero::cli {
namespace {

// In a build without libtorch, the verbs must say so. Verbs that need libtorch are tested elsewhere.
TEST(TorchLibrary, IsThereOrSaysWhyNot) {
  const TorchFound found = probe_torch();
  EXPECT_EQ(found.loaded, found.problem.empty()) << found.problem;
  EXPECT_EQ(found.loaded, !found.version.empty());
  if (found.loaded) {
    EXPECT_NO_THROW(open_torch_verbs());
  } else {
    EXPECT_THROW(open_torch_verbs(), ConfigError);
    EXPECT_EQ(found.problem.find('\n'), std::string::npos) << "one line of a table";
  }
}

// libgomp prints its settings when it is loaded. The user's own setting wins.
TEST(TorchLibrary, ThreadsSleepWhileWaiting) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  const Folder folder;
  const auto said = [&](const std::string& variables) {
    return folder.zero("doctor", "OMP_DISPLAY_ENV=true " + variables).errors;
  };
  EXPECT_NE(said("env -u OMP_WAIT_POLICY").find("OMP_WAIT_POLICY = 'PASSIVE'"), std::string::npos) << said("");
  EXPECT_NE(said("OMP_WAIT_POLICY=active").find("OMP_WAIT_POLICY = 'ACTIVE'"), std::string::npos);
}

TEST(TorchLibrary, RefusesAnotherTorchWithBothVersions) {
  EXPECT_NO_THROW(require_same_torch("2.11.0", "2.11.0"));
  EXPECT_NO_THROW(require_same_torch("2.11.0", "2.11.0+cu130")) << "with or without CUDA, it is the same libtorch";
  EXPECT_NO_THROW(require_same_torch("2.11.0", "")) << "libtorch does not say";
  try {
    require_same_torch("2.11.0+cpu", "2.10.1+cu130");
    FAIL() << "no error was thrown";
  } catch (const ConfigError& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("libtorch = 2.10.1+cu130: zero.cpp was built for libtorch 2.11.0+cpu"), std::string::npos)
        << said;
    EXPECT_NE(said.find("pip install torch==2.11.0)"), std::string::npos) << said;
  }
}

TEST(TorchVerbs, OfThisBuildCarryItsName) {
  EXPECT_STREQ(TorchVerbs{}.abi, build_name());
}

}  // namespace
}  // namespace zero::cli
