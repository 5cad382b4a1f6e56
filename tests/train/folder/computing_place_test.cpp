#include "app/train/folder/computing_place.h"

#include <gtest/gtest.h>

#include "tests/support/environment_variable.h"

namespace zero {
namespace {

const ComputingPlace kThere{2, "1.0.0", "2.10.0", "AVX2+AVX2", "-", "A CPU @ 2.5 GHz"};

TEST(ComputingPlace, TextIsReadBack) {
  for (const ComputingPlace& place : {kThere, computing_place(3)}) EXPECT_EQ(place_of_text(to_text(place)), place);
  for (const char* text : {"", "threads 2", "threads x zero 1 libtorch 2 instructions A settings - processor B",
                           "threads 0 zero 1 libtorch 2 instructions A settings - processor B"})
    EXPECT_FALSE(place_of_text(text)) << text;
}

TEST(ComputingPlace, VersionsAndInstructionsDecideBits) {
  ComputingPlace here = kThere;
  here.threads = 1;
  here.processor = "Another";
  EXPECT_EQ(why_other_bits(kThere, here), "") << "threads can be set, and names do not matter";
  here.libtorch = "2.11.0";
  EXPECT_EQ(why_other_bits(kThere, here), "libtorch 2.10.0, and libtorch 2.11.0 here");
  here.instructions = "AVX512+AVX3";
  EXPECT_NE(why_other_bits(kThere, here).find("; instructions AVX2+AVX2, and instructions AVX512+AVX3 here"),
            std::string::npos);
  here = kThere;
  here.zero = "1.1.0";
  EXPECT_EQ(why_other_bits(kThere, here), "zero 1.0.0, and zero 1.1.0 here");
}

TEST(ComputingPlace, SettingsOfLibrariesDecideBits) {
  const ComputingPlace without = computing_place(1);
  const EnvironmentVariable set("MKL_CBWR", "AVX2, STRICT");
  EXPECT_EQ(computing_place(1).settings, "MKL_CBWR=AVX2,_STRICT");
  EXPECT_NE(why_other_bits(without, computing_place(1)), "");
}

TEST(ComputingPlace, ResumedRunSaysWhatChanged) {
  ComputingPlace here = kThere;
  EXPECT_EQ(changed_places("", to_text(here)), "") << "the log of an earlier version";
  EXPECT_EQ(changed_places(text_of_places({kThere, kThere}), text_of_places({here})), "");
  here.threads = 1;
  EXPECT_EQ(changed_places(to_text(kThere), to_text(here)), "threads 2, and threads 1 here");
  EXPECT_NE(changed_places(text_of_places({kThere, here}), to_text(here)), "");
}

}  // namespace
}  // namespace zero
