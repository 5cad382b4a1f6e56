#include "app/train/folder/save_pace.h"

#include <algorithm>
#include <atomic>

#include <gtest/gtest.h>

#include "tests/comm/transport/worlds.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SavePace, NotesSaveLongerThanInterval) {
  const CheckpointPolicy by_time{.every_seconds = 2}, by_steps{.every_steps = 10};
  EXPECT_TRUE(says(pace_note(by_time, 300 * kMiB, 2.5, 0.1), "300 MiB takes about 2.50 s to write here"));
  EXPECT_TRUE(says(pace_note(by_time, 300 * kMiB, 2.5, 0.1), "the next is due after 2.00 s"));
  EXPECT_EQ(pace_note(by_time, 300 * kMiB, 1.9, 0.1), "");
  EXPECT_TRUE(says(pace_note(by_steps, 300 * kMiB, 2.5, 0.2), "10 steps may take only 2.00 s"));
  EXPECT_EQ(pace_note(by_steps, 300 * kMiB, 2.5, 0.3), "");
}

TEST(SavePace, UnknownOrUnsavedIsNotNoted) {
  EXPECT_EQ(pace_note({.every_seconds = 2}, 300 * kMiB, 0, 0.1), "");
  EXPECT_EQ(pace_note({}, 300 * kMiB, 10, 0.1), "");
}

TEST(SavePace, ProbesDiskAndLeavesNothing) {
  const TemporaryFolder folder;
  std::atomic<int> told{0};
  run_ranks(2, [&](World& world) {
    Communicator& comm = world.communicator();
    double some = estimate_save_seconds(comm, folder.path(), 2 * kLeastBytes);
    // Takes the least of three measurements, because a busy machine can slow one down.
    for (int i = 0; i < 3; ++i) some = std::min(some, estimate_save_seconds(comm, folder.path(), 2 * kLeastBytes));
    const double more = estimate_save_seconds(comm, folder.path(), 2000 * kLeastBytes);
    EXPECT_GT(some, 0);
    EXPECT_GT(more, some) << "a thousand times as many bytes";
    EXPECT_EQ(estimate_save_seconds(comm, folder.path(), 2 * kLeastBytes - 2), 0) << "too few bytes to matter";
    EXPECT_GT(estimate_save_seconds(comm, folder / "not/yet/there", 2 * kLeastBytes), 0);
    EXPECT_EQ(estimate_save_seconds(comm, "/proc/self/nowhere", 2 * kLeastBytes), 0) << "the save reports the reason";
    ++told;
  });
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace zero
