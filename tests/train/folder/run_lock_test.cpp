#include "app/train/folder/run_lock.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

TEST(RunLock, RefusesSecondRunUnderAnyPath) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_symlink(folder / "run", folder / "link");
  const RunLock first(folder / "run", milliseconds(0));
  for (const auto& name : {folder / "run", folder / "run/", folder / "other/../run", folder / "link"}) {
    const std::string text = message_of<ConfigError>([&] { RunLock(name, milliseconds(30)); });
    EXPECT_NE(text.find("another run uses it"), std::string::npos) << name << ": " << text;
  }
  EXPECT_NO_THROW(RunLock(folder / "another", milliseconds(0)));
}

TEST(RunLock, ReleaseLeavesNothing) {
  const TemporaryFolder folder;
  { const RunLock held(folder / "run", milliseconds(0)); }
  EXPECT_NO_THROW(RunLock(folder / "run", milliseconds(0)));
  EXPECT_EQ(folder.num_files(), 0u);
}

TEST(RunLock, WaitsForKilledRunsRanks) {
  const TemporaryFolder folder;
  auto held = std::make_unique<RunLock>(folder / "run", milliseconds(0));
  int num_pauses = 0;
  const auto ends_at_the_third = [&] {
    if (++num_pauses == 3) held = nullptr;
  };
  EXPECT_NO_THROW(RunLock(folder / "run", std::chrono::minutes(5), ends_at_the_third));
  EXPECT_EQ(num_pauses, 3);
}

}  // namespace
}  // namespace zero
