// one_of(), all_of(), names_where(): join names as in a sentence, for errors and help texts.
//
//   one_of(std::array<std::string_view, 3>{"a", "b", "c"})      // "a, b or c"
//   names_where(kModelTable, &ModelRow::has_blocks)             // "gpt2, llama or bert"
//
// Values; Local.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

inline std::string joined_names(std::span<const std::string_view> names, std::string_view before_last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text.append(i == 0 ? "" : i + 1 == names.size() ? before_last : ", ").append(names[i]);
  return text;
}

// Join names: "a, b or c" and "a, b and c".
inline std::string one_of(std::span<const std::string_view> names) {
  return joined_names(names, " or ");
}
inline std::string all_of(std::span<const std::string_view> names) {
  return joined_names(names, " and ");
}

// Joins the names of a table's rows for which `holds` is true, in their order: "a, b or c". A row has a `name`.
template <typename Rows, typename Holds>
std::string names_where(const Rows& rows, Holds holds) {
  std::vector<std::string_view> names;
  for (const auto& row : rows)
    if (std::invoke(holds, row)) names.push_back(row.name);
  return one_of(names);
}

}  // namespace zero
