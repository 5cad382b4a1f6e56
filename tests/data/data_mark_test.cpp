#include "app/data/data_mark.h"

#include <gtest/gtest.h>

#include "tests/data/make_files.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class DataMarkTest : public testing::Test {
 protected:
  std::string mark_of_text(const std::string& name, const std::string& text, std::int64_t context = 4,
                           double held_out = 0.1) const {
    return data_mark(open_data({.path = folder_.write(name, text), .validation = held_out, .context = context}));
  }
  const TemporaryFolder folder_;
  const std::string text_ = "the first words of a text, whose middle and whose end are here, and then there is no more";
};

TEST_F(DataMarkTest, MovesWithTheFiles) {
  EXPECT_EQ(mark_of_text("here", text_), mark_of_text("there", text_));
}

TEST_F(DataMarkTest, OtherSizesAreToldWithBoth) {
  EXPECT_EQ(changed_data(mark_of_text("a", std::string(1200, 'a')), mark_of_text("a", std::string(1500, 'a'))),
            "1,080 tokens, 120 held out then, 1,350 tokens, 150 held out now");
  EXPECT_EQ(changed_data(mark_of_text("a", text_, 4, 0.0), mark_of_text("a", text_, 4, 0.5)),
            "89 tokens, 0 held out then, 44 tokens, 45 held out now");
}

TEST_F(DataMarkTest, FindsOtherContentsOfEqualSize) {
  const std::string before = mark_of_text("a", text_);
  for (const std::size_t at : {std::size_t{0}, std::size_t{21}, text_.size() - 1}) {
    std::string other = text_;
    other[at] = '#';
    EXPECT_EQ(changed_data(before, mark_of_text("a", other)),
              "as much as then, 80 tokens, 9 held out, with other contents")
        << at;
  }
  const auto mark_of_table = [&](const std::string& rows) {
    return data_mark(open_data({.kind = DataKind::kCsv, .path = folder_.write("t.csv", rows), .validation = 0.0}));
  };
  EXPECT_EQ(changed_data(mark_of_table("1,2\n3,4\n"), mark_of_table("1,2\n3,5\n")),
            "as much as then, 2 rows, 0 held out, with other contents");
}

TEST_F(DataMarkTest, AnotherContextIsNoChange) {
  EXPECT_EQ(changed_data(mark_of_text("a", text_, 4), mark_of_text("a", text_, 7)), "");
}

TEST_F(DataMarkTest, CheckpointWithoutMarkReportsNothing) {
  EXPECT_EQ(changed_data("", mark_of_text("a", text_)), "");
}

}  // namespace
}  // namespace zero
