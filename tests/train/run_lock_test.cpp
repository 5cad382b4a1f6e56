#include "zero/train/run_lock.h"

#include <thread>

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

TEST(RunLock, ASecondRunIsRefusedWhateverItCallsTheFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_symlink(folder / "run", folder / "link");
  const RunLock first(folder / "run", milliseconds(0));
  for (const auto& name : {folder / "run", folder / "run/", folder / "other/../run", folder / "link"}) {
    const std::string text = message_of<ConfigError>([&] { RunLock(name, milliseconds(30)); });
    EXPECT_NE(text.find("another run goes on in it"), std::string::npos) << name << ": " << text;
  }
  EXPECT_NO_THROW(RunLock(folder / "another", milliseconds(0)));
}

TEST(RunLock, ItIsGivenBackAndLeavesNothing) {
  const TemporaryFolder folder;
  { const RunLock held(folder / "run", milliseconds(0)); }
  EXPECT_NO_THROW(RunLock(folder / "run", milliseconds(0)));
  EXPECT_EQ(folder.num_files(), 0u);
}

TEST(RunLock, TheRanksOfARunThatWasKilledAreWaitedFor) {
  const TemporaryFolder folder;
  auto held = std::make_unique<RunLock>(folder / "run", milliseconds(0));
  std::thread ends([&] {
    std::this_thread::sleep_for(milliseconds(100));  // the other asks a few times; the verdict does not hang on it
    held = nullptr;
  });
  EXPECT_NO_THROW(RunLock(folder / "run", std::chrono::seconds(20)));
  ends.join();
}

}  // namespace
}  // namespace zero
