#include "app/cli/command/flags.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero::cli {
namespace {

using Words = std::vector<std::string>;

class Flags : public testing::Test {
 protected:
  Flags() {
    app_.add_option("FILE", file_, "a file")->required();
    app_.add_option("--node-rank,--node_rank", rank_, "a number")->capture_default_str();
    app_.add_flag("-j,--json", json_, "a switch");
  }
  bool parse(const Words& words) { return parse_flags(app_, words); }
  std::string refusal(const Words& words) {
    return message_of<ConfigError>([&] { parse(words); });
  }

  CLI::App app_{"Does something.", "zero verb"};
  std::string file_;
  int rank_ = 7;
  bool json_ = false;
};

TEST_F(Flags, AreReadInAnyOrder) {
  EXPECT_TRUE(parse({"--node_rank=3", "a.bin", "-j"}));
  EXPECT_EQ(file_, "a.bin");
  EXPECT_EQ(rank_, 3);
  EXPECT_TRUE(json_);
}

TEST_F(Flags, HelpIgnoresEverythingElse) {
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"--help"}));
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(says(help, "Usage: zero verb FILE [flags]"));
  EXPECT_TRUE(says(help, "--node-rank 7")) << "the default";
  EXPECT_TRUE(says(help, "-j, --json  ")) << "a switch takes no value";
  EXPECT_EQ(help.find("node_rank"), std::string::npos) << "one spelling is enough";
}

TEST_F(Flags, AnUnknownOneGetsTheNear) {
  EXPECT_TRUE(says(refusal({"a", "--jsno"}), "--jsno: unknown flag\n  did you mean '--json'? see `zero verb --help`"));
}

TEST_F(Flags, AnotherWordIsOneTooMany) {
  EXPECT_TRUE(says(refusal({"a", "b"}), "b: an argument too many"));
}

TEST_F(Flags, AMissingArgumentIsNamed) {
  EXPECT_TRUE(says(refusal({}), "FILE"));
}

TEST_F(Flags, RefusesValuesOfAnotherKind) {
  for (const char* value : {"two", "1.5", "1e3", "99999999999999999999"})
    EXPECT_TRUE(says(refusal({"a", "--node-rank", value}),
                     fmt::format("--node-rank = {}: not a whole number, or out of range\n  see `zero verb", value)));
  double rate = 0;
  app_.add_option("--rate", rate, "a number");
  EXPECT_TRUE(says(refusal({"a", "--rate", "fast"}), "--rate = fast: not a number\n"));
}

TEST_F(Flags, ReportsAMissingValue) {
  EXPECT_TRUE(says(refusal({"a", "--node-rank"}), "--node-rank: a value is missing\n  see `zero verb --help`"));
}

TEST_F(Flags, PassOnArgumentsAfterAProgram) {
  app_.prefix_command();
  EXPECT_TRUE(parse({"file", "--json", "program", "--what", "--json"}));
  EXPECT_EQ(app_.remaining(), (Words{"program", "--what", "--json"}));
  EXPECT_TRUE(says(refusal({"file", "--what", "program"}), "--what: unknown flag"));
}

}  // namespace
}  // namespace zero::cli
