#include "zero/base/text/name_lists.h"

#include <array>

#include <gtest/gtest.h>

namespace zero {
namespace {

struct NamedRow {
  std::string_view name;
  bool holds;
};

TEST(NameLists, JoinsNamesAsInASentence) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(one_of(Names{}), "");
  EXPECT_EQ(one_of(Names{"a"}), "a");
  EXPECT_EQ(one_of(Names{"a", "b"}), "a or b");
  EXPECT_EQ(all_of(Names{"a", "b", "c"}), "a, b and c");
}

TEST(NameLists, RowsKeepTableOrder) {
  constexpr std::array kRows{NamedRow{"one", true}, NamedRow{"two", false}, NamedRow{"three", true}};
  EXPECT_EQ(names_where(kRows, &NamedRow::holds), "one or three");
  EXPECT_EQ(names_where(kRows, [](const NamedRow& row) { return !row.holds; }), "two");
}

}  // namespace
}  // namespace zero
