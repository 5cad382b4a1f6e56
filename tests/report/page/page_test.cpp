// Runs `zero report` and `zero compare` as a user does.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/file.h"

#include "app/cli/verbs.h"
#include "tests/cli/command.h"
#include "tests/report/page/run_on_disk.h"

namespace zero::page {
namespace {

class PageVerbs : public testing::Test {
 protected:
  Folder here_;
  const RunOnDisk a_{"a"}, b_{"b", {.report = false, .stage = 2, .more_lines = "{broken\n"}};
  const std::string both_ = fmt::format("'{}' '{}'", a_.folder().string(), b_.folder().string());
};

// The output names damaged lines.
TEST_F(PageVerbs, ReportWritesOneFile) {
  const Ran ran = here_.zero("report " + both_ + " -o page.html");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("b: 1 damaged line of metrics.jsonl is left out\n"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("page.html: 2 runs, "), std::string::npos) << ran.output;
  EXPECT_EQ(here_.read("page.html").substr(0, 15), "<!DOCTYPE html>");
}

TEST_F(PageVerbs, ReportNamesItsFile) {
  EXPECT_EQ(here_.zero("report '" + a_.folder().string() + "'").status, 0);
  EXPECT_FALSE(here_.read("report.html").empty());
}

TEST_F(PageVerbs, CompareIsATableOrJson) {
  const Ran text = here_.zero("compare " + both_);
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_NE(text.output.find("zero.stage"), std::string::npos) << text.output;
  const Ran json = here_.zero("compare --json " + both_);
  EXPECT_EQ(nlohmann::json::parse(json.output)["runs"].size(), 2U);
}

// The error fits on one screen.
TEST_F(PageVerbs, FolderWithoutRunIsStatusTwo) {
  for (const std::string verb : {"report", "compare"})
    for (const std::string path : {".", "/nonexistent"}) {
      const Ran ran = here_.zero(verb + " '" + a_.folder().string() + "' " + path);
      EXPECT_EQ(ran.status, 2) << verb << ' ' << path;
      EXPECT_NE(ran.errors.find("RUN = " + path), std::string::npos) << ran.errors;
      EXPECT_LT(ran.errors.size(), 400U);
      EXPECT_TRUE(here_.read("report.html").empty());
    }
}

TEST_F(PageVerbs, RefusesUnwritablePlace) {
  EXPECT_EQ(here_.zero("report '" + a_.folder().string() + "' -o /nonexistent/page.html").status, 2);
}

TEST_F(PageVerbs, KeepsFilesThatAreNoPages) {
  const std::string config = a_.folder().string() + "/config.toml", before = read_file(config);
  const Ran ran = here_.zero("report '" + a_.folder().string() + "' -o '" + config + "'");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("exists already, and is not a page of zero report"), std::string::npos) << ran.errors;
  EXPECT_EQ(read_file(config), before);
}

}  // namespace
}  // namespace zero::page
