// A number beyond double ("6e555") counted as a word. So a first line with such numbers was taken for a header, and a
// row of data was lost without a message. Found by fuzzing.
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/data/tables/csv.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(CsvNumberBeyondDouble, IsNoWordOfAHeader) {
  const std::string small = "0." + std::string(400, '0') + "1";
  for (const std::string& field : {std::string("6e555"), std::string("-1e999"), std::string("1e-400"), small}) {
    for (const std::string& line : {field + "," + field, field + ",price"}) {
      const std::string message =
          message_of<ConfigError>([&] { parse_csv(line + "\n1,2\n", "data.path", "house.csv"); });
      const std::string shown = field.size() > 40 ? field.substr(0, 37) + "..." : field;
      EXPECT_TRUE(says(message, "house.csv:1: column 1 holds '" + shown + "', which is not a finite number"));
    }
  }
}

}  // namespace
}  // namespace zero
