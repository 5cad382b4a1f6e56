#include "zero/base/text/terminal_text.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(TerminalText, WhatFitsStays) {
  EXPECT_EQ(terminal_text("to be", 5), "to be");
  EXPECT_EQ(terminal_text("", 5), "");
}

TEST(TerminalText, WideTextEndsWithDots) {
  EXPECT_EQ(terminal_text("to be, or not to be", 12), "to be, or...");
  EXPECT_EQ(terminal_text("abcd", 3), "...");
}

TEST(TerminalText, CutsBeforeACharacter) {
  EXPECT_EQ(terminal_columns("Ærø"), 3U);
  EXPECT_EQ(terminal_text("ÆØÅæøå", 6), "ÆØÅæøå");
  EXPECT_EQ(terminal_text("ÆØÅæøå!", 6), "ÆØÅ...");
}

TEST(TerminalText, NeverControlsTheTerminal) {
  EXPECT_EQ(terminal_text("a\x1b[2Jb\nc\td\x7f", 40), "a [2Jb c d ");
  EXPECT_EQ(terminal_text("a\xc2\x9b"
                          "2Jb\xc2\xa0",
                          40),
            "a 2Jb\xc2\xa0");
  EXPECT_EQ(terminal_text("a\nb"), "a b");
}

}  // namespace
}  // namespace zero
