#include "app/report/screen/wrapped.h"

#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/one_line.h"

namespace zero {
namespace {

TEST(Wrapped, KeepsFittingLines) {
  EXPECT_EQ(wrapped("  loss 1.0  val_loss 2.0", 4), "  loss 1.0  val_loss 2.0\n");
  EXPECT_EQ(wrapped(std::string(80, 'x'), 4), std::string(80, 'x') + "\n");
  EXPECT_EQ(wrapped("", 4), "\n");
}

// Continued lines are indented.
TEST(Wrapped, BreaksLongLinesAtSpaces) {
  std::string line = "  words";
  for (int word = 0; word < 60; ++word) line += " " + std::to_string(word) + "word";
  const std::string text = wrapped(line, 6);
  EXPECT_EQ(one_line(text), one_line(line)) << "no word is lost";
  std::istringstream lines(text);
  int count = 0;
  for (std::string each; std::getline(lines, each); ++count) {
    EXPECT_LE(each.size(), kColumns) << each;
    EXPECT_EQ(each.find_first_not_of(' '), count == 0 ? 2U : 6U) << each;
    EXPECT_NE(each.back(), ' ');
  }
  EXPECT_GT(count, 4);
}

TEST(Wrapped, ANumberStaysWithItsUnit) {
  EXPECT_EQ(wrapped(std::string(70, 'x') + " has 18.4 GiB free", 4),
            std::string(70, 'x') + " has\n    18.4 GiB free\n");
}

TEST(Wrapped, KeepsWordEndingInLastColumn) {
  const std::string word(79, 'x');
  EXPECT_EQ(wrapped(" " + word + " next", 2), " " + word + "\n  next\n");
}

TEST(Wrapped, KeepsWideWords) {
  const std::string path(100, 'p');
  EXPECT_EQ(wrapped("  " + path, 4), "  " + path + "\n");
  EXPECT_EQ(wrapped("in " + path + " it is", 4), "in\n    " + path + "\n    it is\n");
}

}  // namespace
}  // namespace zero
