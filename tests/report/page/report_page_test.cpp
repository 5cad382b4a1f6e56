#include "app/report/page/report_page.h"

#include <gtest/gtest.h>

#include "app/report/page/assets.h"
#include "tests/report/page/run_on_disk.h"
#include "tests/support/occurrences.h"

namespace zero::page {
namespace {

using Json = nlohmann::json;

// The value that a browser's JSON.parse returns.
Json runs_in(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"runs\">";
  const auto begin = html.find(open) + open.size();
  return Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

TEST(ReportPage, HoldsTheCurvesOfItsRuns) {
  const RunOnDisk a("a", {.steps = 20}), b("b", {.steps = 5, .report = false});
  const std::vector<RecordedRun> runs{read_run(a.folder()), read_run(b.folder())};
  const Json json = runs_in(report_page(runs, "today"));
  ASSERT_EQ(json["runs"].size(), 2U);
  EXPECT_EQ(json["runs"][0]["curves"]["loss"][0].size(), 20U);
  EXPECT_EQ(json["runs"][1]["curves"]["loss"][1][4], 4.5);
  EXPECT_EQ(json["runs"][1]["done"], false);
  EXPECT_FALSE(json["runs"][0]["curves"].contains("memory_bytes.master")) << "0 throughout";
  EXPECT_EQ(json["made"], "today");
  EXPECT_EQ(json["runs"][0]["states"][0],
            (Json{"device, planned", "1.00 KiB", "1.00 KiB", "0 B", "2.00 KiB", "4.00 KiB"}));
  EXPECT_EQ(json["runs"][0]["states"][1],
            (Json{"device, measured", "1.00 KiB", "1.00 KiB", "0 B", "2.00 KiB", "4.00 KiB"}));
  EXPECT_EQ(json["runs"][0]["balance"][1], (Json{"sent a step (plan)", "2.93 KiB", "2.93 KiB", "="}));
}

TEST(ReportPage, NamesUtilizationReferenceForSeveralRuns) {
  const RunOnDisk a("a", {.peak_flops = 4e10}), b("b", {.peak_flops = 2e10});
  const auto utilization = [](const std::vector<RecordedRun>& runs) {
    const Json json = runs_in(report_page(runs, "today"));
    for (const Json& figure : json["figures"])
      if (figure["key"] == "utilization") return figure;
    return Json();
  };
  const Json both = utilization({read_run(a.folder()), read_run(b.folder())});
  EXPECT_EQ(both["texts"], (Json{"25%", "12.5%"}));
  EXPECT_NE(both["note"].get<std::string>().find("on the same machine"), std::string::npos);
  EXPECT_EQ(utilization({read_run(b.folder())})["note"], "");
}

TEST(ReportPage, RunTextNeverBecomesMarkup) {
  const std::string evil = "</script><script>alert(1)</script><!--";
  const RunOnDisk folder("<b>@SCRIPT@", {.command = evil});
  const std::vector<RecordedRun> runs{read_run(folder.folder())};
  const std::string html = report_page(runs, "today");
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(html.find("<b>@SCRIPT@"), std::string::npos);
  EXPECT_EQ(occurrences("</script>", html), 2);
  EXPECT_EQ(occurrences("<script", html), 2);
  const Json run = runs_in(html)["runs"][0];
  EXPECT_EQ(run["name"], "<b>@SCRIPT@");
  bool has_command = false;
  for (const Json& fact : run["facts"]) has_command = has_command || fact[1] == evil;
  EXPECT_TRUE(has_command);
}

TEST(ReportPage, ReplacesInvalidBytes) {
  const RunOnDisk folder("a");
  folder.write("config.toml", "[data]\npath = \"\xff\xfe\"\n");
  const std::vector<RecordedRun> runs{read_run(folder.folder())};
  EXPECT_EQ(runs_in(report_page(runs, "today"))["keys"][0]["values"][0], "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(ReportPage, NeedsNoNetwork) {
  const RunOnDisk folder("a");
  const std::vector<RecordedRun> runs{read_run(folder.folder())};
  std::string html = report_page(runs, "today");
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  // The namespace of SVG is an address that no browser opens.
  const std::string svg = "\"http://www.w3.org/2000/svg\"";
  html.erase(html.find(svg), svg.size());
  for (const char* word : {"http://", "https://", "src=", "href=", "url(\"", "@import", "fetch("})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
}

TEST(ReportPage, TextStaysTextInHtml) {
  EXPECT_EQ(html_text("a <b> & \"c\""), "a &lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(json_for_script({{"a", "<x>"}}), "{\"a\":\"\\u003cx>\"}");
}

}  // namespace
}  // namespace zero::page
