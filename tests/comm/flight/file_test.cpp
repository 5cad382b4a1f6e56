#include "zero/comm/flight/file.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/process/pages.h"
#include "zero/comm/flight/ring.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

FlightRecord four_entries() {
  const FlightCall gather{.operation = FlightOperation::kAllGather, .unit = 3, .bytes = 4096};
  const FlightCall send{.operation = FlightOperation::kSend, .bytes = 7, .peer = 0};
  return {.identity = {.rank = 1, .world = 4, .run = "run \"7\"\n", .restart = 2, .host = "node", .process = 99},
          .started_ns = 1000,
          .written_ns = 9000,
          .num_unreadable = 1,
          .step = 40,
          .cause = {.reason = "rank 3: barrier #2: late", .blamed = 3, .waited_ns = 77},
          .groups = {"copy 0 (ranks 0, 1)", "column (ranks 1, 3)"},
          .entries = {{.number = 5, .collective = 4, .call = gather, .began_ns = 2000, .ended_ns = 2100},
                      {.number = 6, .call = send, .began_ns = 2200, .ended_ns = 2300, .failed = true},
                      {.number = 9, .collective = 5, .call = {}, .began_ns = 2400},
                      {.number = 10, .collective = 2, .group = 2, .call = gather, .began_ns = 2500}}};
}

TEST(FlightFile, WhatIsWrittenIsRead) {
  const FlightRecord out = four_entries(), in = parse_flight(flight_json(out), "here");
  EXPECT_EQ(in.identity.rank, 1);
  EXPECT_EQ(in.identity.world, 4);
  EXPECT_EQ(in.identity.run, "run \"7\"\n");
  EXPECT_EQ(in.identity.restart, 2);
  EXPECT_EQ(in.identity.host, "node");
  EXPECT_EQ(in.identity.process, 99);
  EXPECT_EQ(in.started_ns, 1000);
  EXPECT_EQ(in.written_ns, 9000);
  EXPECT_EQ(in.num_unreadable, 1u);
  EXPECT_EQ(in.step, 40);
  EXPECT_EQ(in.cause.reason, "rank 3: barrier #2: late");
  EXPECT_EQ(in.cause.blamed, 3);
  EXPECT_EQ(in.cause.waited_ns, 77);
  EXPECT_EQ(in.groups, out.groups);
  ASSERT_EQ(in.entries.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(in.entries[i].number, out.entries[i].number);
    EXPECT_EQ(in.entries[i].group, out.entries[i].group);
    EXPECT_EQ(in.entries[i].collective, out.entries[i].collective);
    EXPECT_EQ(in.entries[i].call, out.entries[i].call);
    EXPECT_EQ(in.entries[i].began_ns, out.entries[i].began_ns);
    EXPECT_EQ(in.entries[i].ended_ns, out.entries[i].ended_ns);
    EXPECT_EQ(in.entries[i].failed, out.entries[i].failed);
  }
}

TEST(FlightFile, UnnotedStepIsAbsent) {
  FlightRecord record = four_entries();
  record.step.reset();
  EXPECT_FALSE(parse_flight(flight_json(record), "here").step);
}

TEST(FlightFile, WritesReasonsThatAreNotUtf8) {
  FlightRecord record = four_entries();
  record.cause.reason = "bad \xff byte";
  EXPECT_EQ(parse_flight(flight_json(record), "here").cause.reason, "bad \xEF\xBF\xBD byte");
}

// One change to a valid file, and the reason of its refusal.
struct Damage {
  const char* pointer;
  nlohmann::json value;
  const char* reason;
};

TEST(FlightFile, RefusesNonsenseByName) {
  const std::vector<Damage> damages{
      {"/format", "zero flight 1", "another format"},
      {"/rank", 4, "rank is 4, not below 4"},
      {"/rank", -1, "no rank"},
      {"/world", 0, "world without ranks"},
      {"/world", 1000000, "world is 1000000"},
      {"/world", "4", "world is not a whole number"},
      {"/blamed", 4, "blamed is 4"},
      {"/reason", 7, "reason is not a text"},
      {"/started_ns", -3, "started_ns is not a whole number"},
      {"/step", -2, "step is not a whole number"},
      {"/written_ns", 1.5, "written_ns is not a whole number"},
      {"/entries", "none", "entries is not a list"},
      {"/entries/0", 7, "another value in place of an object"},
      {"/entries/0/operation", "all_reduce", "does not exist"},
      {"/entries/0/bytes", -1, "bytes is not a whole number"},
      {"/entries/0/unit", -2, "a unit is not a whole number"},
      {"/entries/0/peer", 4, "a peer is 4"},
      {"/entries/0/failed", 0, "neither true nor false"},
      {"/entries/0/number", 6, "out of order"},
      {"/entries/2/collective", 4, "out of order"},
      {"/entries/2/collective", 0, "has a message with a number"},
      {"/entries/1/collective", 4, "has a message with a number"},
      {"/entries/3/group", 3, "a group that it does not list"},
      {"/entries/3/group", -1, "a group is not a whole number"},
      {"/entries/3/group", 0, "out of order"},
      {"/groups", 1, "groups is not a list"},
      {"/groups/0", "", "groups that ranks never write"},
      {"/groups/0", std::string(300, 'x'), "groups that ranks never write"},
      {"/more", 1, "unknown \"more\""},
      {"/entries/0/more", 1, "unknown \"more\""},
  };
  for (const Damage& damage : damages) {
    auto json = nlohmann::json::parse(flight_json(four_entries()));
    json[nlohmann::json::json_pointer(damage.pointer)] = damage.value;
    EXPECT_TRUE(says(message_of<IoError>([&] { parse_flight(json.dump(), "here"); }), damage.reason)) << damage.pointer;
  }
}

// Any text is a record or gives an IoError.
RC_GTEST_PROP(FlightFile, AnyTextLoadsOrThrows, ()) {
  std::string text = flight_json(four_entries());
  const auto num_changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < num_changes; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const auto length = *rc::gen::inRange<std::size_t>(0, 20);
    text.replace(at, length, *rc::gen::arbitrary<std::string>());
  }
  try {
    const FlightRecord record = parse_flight(text, "here");
    RC_ASSERT(record.identity.rank < record.identity.world);
  } catch (const IoError& error) {
    RC_ASSERT(error.error_number() == 0);
  }
}

class FlightFolderTest : public ::testing::Test {
 protected:
  // Writes the ring of this rank of three, with one barrier.
  fs::path write(int rank, const FlightCause& cause = {}) const {
    const Allocation memory = map_private(FlightRing::bytes(4));
    FlightRing ring(memory.bytes(), {.rank = rank, .world = 3, .run = "run"});
    ring.begin({});
    return write_flight(folder_ / "run" / "flight", memory.bytes(), cause);
  }
  static int mode(const fs::path& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  TemporaryFolder folder_;
};

TEST_F(FlightFolderTest, IsForItsOwnerAlone) {
  const fs::path path = write(1, {.reason = "late", .blamed = 2});
  EXPECT_EQ(path, folder_ / "run" / "flight" / "rank-00001.json");
  EXPECT_EQ(mode(path), 0600);
  EXPECT_EQ(mode(path.parent_path()), 0700);
}

// No other files remain.
TEST_F(FlightFolderTest, LaterFileReplacesTheEarlier) {
  write(1, {.reason = "first"});
  write(1, {.reason = "second"});
  write(0);
  const FlightFolder found = read_flight_folder(folder_ / "run" / "flight");
  ASSERT_EQ(found.records.size(), 2u);
  EXPECT_EQ(found.records[0].identity.rank, 0);
  EXPECT_EQ(found.records[1].cause.reason, "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "run" / "flight"), fs::directory_iterator()), 2);
}

TEST_F(FlightFolderTest, UnmadeRingWritesNothing) {
  const Allocation memory = map_private(FlightRing::bytes(4));
  EXPECT_EQ(write_flight(folder_ / "flight", memory.bytes(), {}), fs::path());
  EXPECT_FALSE(fs::exists(folder_ / "flight"));
}

TEST_F(FlightFolderTest, DamagedFilesAreNamedOthersRead) {
  const fs::path flight = write(0).parent_path();
  write(1);
  write_file(flight / "rank-00002.json", "{");
  fs::copy_file(flight / "rank-00001.json", flight / "rank-00007.json");  // the name has another rank
  fs::create_symlink(flight / "rank-00001.json", flight / "rank-00003.json");
  ASSERT_EQ(mkfifo((flight / "rank-00004.json").c_str(), 0600), 0);
  std::ofstream(flight / "rank-00005.json").seekp(40 << 20) << " ";
  write_file(flight / "rank-1.json", "not looked at");
  write_file(flight / "notes.txt", "not looked at");
  const FlightFolder found = read_flight_folder(flight);
  EXPECT_EQ(found.records.size(), 2u);
  ASSERT_EQ(found.damaged.size(), 5u);
  EXPECT_TRUE(says(found.damaged[0], "rank-00002.json"));
  EXPECT_TRUE(says(found.damaged[0], "not JSON"));
  EXPECT_TRUE(says(found.damaged[1], "rank-00003.json"));
  EXPECT_TRUE(says(found.damaged[2], "not a regular file"));
  EXPECT_TRUE(says(found.damaged[3], "too large"));
  EXPECT_TRUE(says(found.damaged[4], "belongs to rank 1"));
}

TEST_F(FlightFolderTest, UnlistableFolderIsNamed) {
  EXPECT_TRUE(says(message_of<IoError>([&] { read_flight_folder(folder_ / "nowhere"); }), "nowhere: list"));
}

TEST_F(FlightFolderTest, UncreatableFolderIsNamed) {
  folder_.write("run", "a file");
  EXPECT_TRUE(says(message_of<IoError>([&] { write(0); }), "flight"));
}

}  // namespace
}  // namespace zero
