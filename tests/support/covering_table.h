// covering_table: rows of levels of factors. Any kStrength factors have every possible combination of their levels in
// some row.
//
//   const std::vector<std::array<int, 3>> pairs = covering_table<2>(std::array{4, 2, 3}, possible);
//
// `possible` says whether a row may be in the table. A combination that is in no possible row is left out. A greedy
// search with a fixed seed makes the table, which is the same in each build. It begins with the rows of `table`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

namespace zero::tests {

// Combinations: the combinations of levels of any kStrength factors, as numbers from 0 to size() - 1.
template <std::size_t kStrength, std::size_t kNumFactors>
class Combinations {
 public:
  using Row = std::array<int, kNumFactors>;

  explicit Combinations(const Row& num_levels) : num_levels_(num_levels) { choose({}, 0, 0); }

  std::size_t size() const { return size_; }

  // The combinations that a row has: one for each choice of factors.
  std::vector<std::size_t> in(const Row& row) const {
    std::vector<std::size_t> numbers;
    numbers.reserve(choices_.size());
    for (const Choice& choice : choices_) {
      std::size_t number = 0;
      for (const std::size_t factor : choice.factors) number = number * levels(factor) + level(row, factor);
      numbers.push_back(choice.first + number);
    }
    return numbers;
  }

  // A row that has level -1 of all factors that are not in the combination.
  Row row_of(std::size_t number) const {
    const auto after =
        std::ranges::upper_bound(choices_, number, {}, [](const Choice& choice) { return choice.first; });
    const Choice& choice = *std::prev(after);
    Row row;
    row.fill(-1);
    std::size_t rest = number - choice.first;
    for (std::size_t i = kStrength; i-- > 0;) {
      const std::size_t factor = choice.factors[i];
      row[factor] = static_cast<int>(rest % levels(factor));
      rest /= levels(factor);
    }
    return row;
  }

 private:
  struct Choice {
    std::array<std::size_t, kStrength> factors;
    std::size_t first;  // number of its first combination
  };

  std::size_t levels(std::size_t factor) const { return static_cast<std::size_t>(num_levels_[factor]); }
  static std::size_t level(const Row& row, std::size_t factor) { return static_cast<std::size_t>(row[factor]); }

  void choose(std::array<std::size_t, kStrength> factors, std::size_t chosen, std::size_t next) {
    if (chosen == kStrength) {
      choices_.push_back({factors, size_});
      std::size_t count = 1;
      for (const std::size_t factor : factors) count *= levels(factor);
      size_ += count;
      return;
    }
    for (; next < kNumFactors; ++next) {
      factors[chosen] = next;
      choose(factors, chosen + 1, next + 1);
    }
  }

  Row num_levels_;
  std::vector<Choice> choices_;
  std::size_t size_ = 0;
};

template <std::size_t kStrength, std::size_t kNumFactors, typename Possible>
std::vector<std::array<int, kNumFactors>> covering_table(const std::array<int, kNumFactors>& num_levels,
                                                         Possible possible,
                                                         std::vector<std::array<int, kNumFactors>> table = {}) {
  using Row = std::array<int, kNumFactors>;
  constexpr int kDraws = 1000, kCandidates = 30;
  std::mt19937 random(1);
  // Draws the levels that are -1. Returns nothing if no draw is possible.
  const auto completed = [&](const Row& begun) -> std::optional<Row> {
    for (int i = 0; i < kDraws; ++i) {
      Row row = begun;
      for (std::size_t factor = 0; factor < kNumFactors; ++factor)
        if (row[factor] < 0) row[factor] = static_cast<int>(random() % static_cast<unsigned>(num_levels[factor]));
      if (possible(row)) return row;
    }
    return std::nullopt;
  };
  const Combinations<kStrength, kNumFactors> combinations(num_levels);
  std::vector<bool> missing(combinations.size(), true);
  const auto add = [&](const Row& row) {
    for (const std::size_t number : combinations.in(row)) missing[number] = false;
  };
  for (const Row& row : table) add(row);
  // Each row has the first missing combination, and of its candidates as many missing ones as can be.
  for (std::size_t first = 0; first < missing.size(); ++first) {
    if (!missing[first]) continue;
    std::optional<Row> best;
    std::ptrdiff_t most = 0;
    for (int i = 0; i < kCandidates; ++i) {
      const std::optional<Row> row = completed(combinations.row_of(first));
      if (!row) break;
      const auto gained = std::ranges::count_if(combinations.in(*row), [&](std::size_t at) { return missing[at]; });
      if (gained <= most) continue;
      most = gained;
      best = row;
    }
    if (!best) continue;
    add(*best);
    table.push_back(*best);
  }
  return table;
}

}  // namespace zero::tests
