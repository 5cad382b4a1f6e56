#include "app/report/files/run_origin.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(RunOrigin, TellsWhenWhereAndByWhat) {
  const RunOrigin origin = origin_of_process("[train]\nsteps = 3\n", "2.11.0");
  EXPECT_EQ(origin.date.size(), std::string("2026-01-31T12:00:00Z").size());
  EXPECT_FALSE(origin.host.empty());
  EXPECT_NE(origin.command.find("zero_report_test"), std::string::npos) << origin.command;
  EXPECT_EQ(origin.libtorch.front(), '2');
  EXPECT_GT(origin.cores, 0);
  EXPECT_EQ(origin.configuration, "[train]\nsteps = 3\n");
}

TEST(RunOrigin, CommandWordsAreShellSafe) {
  using namespace std::string_view_literals;
  EXPECT_EQ(shell_words("zero\0train\0--zero.optimizer\0{disk = 1}\0it's\0\0"sv),
            "zero train --zero.optimizer '{disk = 1}' 'it'\\''s' ''");
}

}  // namespace
}  // namespace zero
