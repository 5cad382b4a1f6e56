#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "command.h"

namespace zero {
namespace {

TEST(Doctor, JsonHasEveryCheckWithARemedyWhereOneIsNeeded) {
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
    failed = failed || status == "FAIL";
  }
  for (const char* subject :
       {"processor", "cores", "memory", "control group", "huge pages", "huge pages, shared", "locked memory",
        "/dev/shm", "pressure (PSI)", "clock", "io_uring", "disk tier", "disk", "libtorch"}) {
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

TEST(Doctor, TableHasOneLineACheckAndRemediesBelow) {
  const Folder folder;
  const Ran ran = folder.zero("doctor");
  std::istringstream lines(ran.output);
  for (std::string line; std::getline(lines, line);) {
    const bool known = line.starts_with("OK ") || line.starts_with("WARN ") || line.starts_with("FAIL ") ||
                       line.find("-> ") != std::string::npos;
    EXPECT_TRUE(known) << line;
  }
}

}  // namespace
}  // namespace zero
