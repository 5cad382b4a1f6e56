#include "app/report/files/event_file.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "zero/base/error/error.h"

#include "app/report/files/event.h"
#include "tests/report/event_reader.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

std::string step_event(std::int64_t step) {
  const std::array values{Scalar{"loss", 1}};
  return scalars_event({.time = 5, .step = step}, values);
}

TEST(EventFileTest, BeginsWithVersionAndFlushedEvents) {
  const TemporaryFolder folder;
  EventFile file(folder / "tensorboard", 1790000000.5);
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents.1790000000."));
  file.add(step_event(1));
  EXPECT_EQ(read_events(file.path()).size(), 1U) << "not written yet";
  file.flush();
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].time, 1790000000.5);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[1].scalars.at("loss"), 1);
}

// For any clock.
TEST(EventFileTest, LaterFileSortsLast) {
  const TemporaryFolder folder;
  const EventFile first(folder.path(), 100), second(folder.path(), 100), third(folder.path(), 7);
  EXPECT_LT(first.path(), second.path());
  EXPECT_LT(second.path(), third.path());
}

// The file never has half of a record.
TEST(EventFileTest, UnwritableRecordsAreKeptWhole) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 100);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{.rlim_cur = std::filesystem::file_size(file.path()) + 10, .rlim_max = before.rlim_max};
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  file.add(step_event(1));
  EXPECT_THROW(file.flush(), IoError);
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(read_events(file.path()).size(), 1U);
  EXPECT_GT(file.kept_bytes(), 0U);
  file.add(step_event(2));
  file.flush();
  EXPECT_EQ(read_events(file.path()).size(), 3U);
  EXPECT_EQ(file.kept_bytes(), 0U);
}

TEST(EventFileTest, NamesUnmakeableFolder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(message_of<IoError>([&] { EventFile(folder / "no/such", 1); }), "no/such"));
}

TEST(EventFileTest, RemovingLeavesTheFilesOfOthers) {
  const TemporaryFolder folder;
  remove_event_files(folder / "tensorboard");  // the folder does not exist
  { const EventFile file(folder / "tensorboard", 100); }
  remove_event_files(folder / "tensorboard");
  EXPECT_FALSE(std::filesystem::exists(folder / "tensorboard"));
  { const EventFile file(folder / "tensorboard", 100); }
  folder.write("tensorboard/mine", "");
  remove_event_files(folder / "tensorboard");
  EXPECT_EQ(event_files_in(folder / "tensorboard").size(), 1U);
}

}  // namespace
}  // namespace zero
