#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace zero {
namespace {

TEST(Doctor, JsonHasEveryCheckAndRemedy) {
  const Folder folder;
  const Ran ran = folder.zero("doctor --json");
  const auto json = nlohmann::json::parse(ran.output, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.output;
  std::set<std::string> subjects;
  bool failed = false;
  for (const auto& check : json["checks"]) {
    subjects.insert(check["check"]);
    const std::string status = check["status"];
    EXPECT_TRUE(status == "OK" || status == "WARN" || status == "FAIL") << status;
    EXPECT_EQ(status != "OK", check["remedy"] != "") << check.dump();
    EXPECT_NE(check["found"], "") << check.dump();
    if (check["check"] == "memory speed") {
      EXPECT_NE(check["found"].get<std::string>().find("GB/s copied"), std::string::npos) << check.dump();
    }
    if (check["check"] == "disk tier" && status == "OK") {
      EXPECT_NE(check["found"].get<std::string>().find(" GB/s, reads "), std::string::npos) << check.dump();
    }
    failed = failed || status == "FAIL";
  }
  for (const char* subject :
       {"processor", "cores", "memory", "memory speed", "control group", "huge pages", "huge pages, shared",
        "locked memory", "/dev/shm", "pressure (PSI)", "clock", "io_uring", "disk tier", "disk", "libtorch", "GPU"}) {
    EXPECT_TRUE(subjects.contains(subject)) << subject;
  }
  EXPECT_EQ(ran.status, failed ? 1 : 0);
}

TEST(Doctor, LeavesNothingBehind) {
  const Folder folder;
  folder.zero("doctor");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_TRUE(entry.path().filename() == ".out" || entry.path().filename() == ".err") << entry.path();
  }
}

// Remedies may follow the table.
TEST(Doctor, TableHasOneLinePerCheck) {
  const Folder folder;
  const Ran ran = folder.zero("doctor");
  std::istringstream lines(ran.output);
  for (std::string line; std::getline(lines, line);) {
    const bool known = line.starts_with("OK ") || line.starts_with("WARN ") || line.starts_with("FAIL ") ||
                       line.find("-> ") != std::string::npos;
    EXPECT_TRUE(known) << line;
  }
}

// rank-NNNNN.json of a rank that began `begun` gathers. The last gather has not ended.
std::string flight_file(int rank, int begun, int blamed) {
  auto entries = nlohmann::json::array();
  for (int i = 1; i <= begun; ++i) {
    entries.push_back({{"number", i},
                       {"collective", i},
                       {"group", 0},
                       {"operation", "all_gather"},
                       {"unit", i % 3},
                       {"bytes", 64},
                       {"peer", -1},
                       {"began_ns", 1000 + i},
                       {"ended_ns", i < begun ? 1001 + i : 0},
                       {"failed", false}});
  }
  return nlohmann::json{{"format", "zero flight 3"},
                        {"rank", rank},
                        {"world", 3},
                        {"run", "run"},
                        {"restart", 0},
                        {"host", "node"},
                        {"process", 7},
                        {"started_ns", 1000},
                        {"written_ns", 2000000000},
                        {"step", 40 + rank},
                        {"reason", blamed >= 0 ? "rank 2: all_gather #5:\nlate \u001b[31m" : ""},
                        {"blamed", blamed},
                        {"waited_ns", 0},
                        {"unreadable", 0},
                        {"groups", nlohmann::json::array()},
                        {"entries", entries}}
      .dump();
}

TEST(DoctorFlight, NamesCulpritAndEveryRank) {
  const Folder folder;
  folder.write("flight/rank-00000.json", flight_file(0, 5, 2));
  folder.write("flight/rank-00001.json", flight_file(1, 5, 2));
  folder.write("flight/rank-00002.json", flight_file(2, 4, -1));
  const Ran ran = folder.zero("doctor --flight flight");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(ran.output.starts_with("culprit: rank 2 is behind: others have begun #5, it has begun #4 only"))
      << ran.output;
  EXPECT_NE(ran.output.find("all_gather #5 (unit 2, 64 bytes): begun"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("\n     2         42          4  "), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("late"), std::string::npos) << ran.output;
  EXPECT_EQ(ran.output.find('\x1b'), std::string::npos) << "a file's text must not send escape codes to the terminal";
}

TEST(DoctorFlight, JsonSaysTheSame) {
  const Folder folder;
  for (int rank = 0; rank < 2; ++rank)
    folder.write("flight/rank-0000" + std::to_string(rank) + ".json", flight_file(rank, 5, 2));
  const Ran ran = folder.zero("doctor --json --flight flight");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  const auto json = nlohmann::json::parse(ran.output, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.output;
  EXPECT_EQ(json["trouble"], "no record");
  EXPECT_EQ(json["culprits"], nlohmann::json::array({2}));
  EXPECT_EQ(json["world"], 3);
  EXPECT_EQ(json["ranks"][1]["begun"], 5);
  EXPECT_EQ(json["ranks"][1]["step"], 41);
  EXPECT_EQ(json["ranks"][2]["record"], false);
  EXPECT_TRUE(json["ranks"][2]["step"].is_null());
}

// The damaged file is named.
TEST(DoctorFlight, DamagedFileDoesNotStopComparison) {
  const Folder folder;
  folder.write("flight/rank-00000.json", flight_file(0, 5, 2));
  folder.write("flight/rank-00001.json", "{");
  const Ran ran = folder.zero("doctor --flight flight");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("rank-00001.json"), std::string::npos) << ran.errors;
  EXPECT_TRUE(ran.output.starts_with("culprit: rank 2 has no record")) << ran.output;
}

TEST(DoctorFlight, AFolderWithoutRecordsIsRefused) {
  const Folder folder;
  folder.write("empty/notes.txt", "");
  folder.write("damaged/rank-00000.json", "[1, 2]");
  for (const auto& [name, reason] : {std::pair{"empty", "there is no rank-NNNNN.json"},
                                     {"nowhere", "No such file"},
                                     {"damaged", "another value in place of an object"}}) {
    const Ran ran = folder.zero(std::string("doctor --flight ") + name);
    EXPECT_EQ(ran.status, 2) << name;
    EXPECT_NE(ran.errors.find(reason), std::string::npos) << ran.errors;
    EXPECT_NE(ran.errors.find("ZERO_FLIGHT_DIR"), std::string::npos) << ran.errors;
  }
}

}  // namespace
}  // namespace zero
