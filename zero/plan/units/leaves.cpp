#include "zero/plan/units/leaves.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// Returns the leaves of a node's first child.
int first_half(int count) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
}

// Appends the tree over the subtrees whose numbers of leaves are *size, ...; together they have `count` leaves.
void add_node(int count, std::vector<int>::const_iterator& size, SumMerges& merges) {
  if (*size == count) {
    ++size;
    merges.push_back(0);
    return;
  }
  const int half = first_half(count);
  add_node(half, size, merges);
  add_node(count - half, size, merges);
  ++merges.back();
}

SumMerges merges_of(int count, const std::vector<int>& sizes) {
  SumMerges merges;
  auto size = sizes.begin();
  add_node(count, size, merges);
  return merges;
}

}  // namespace

SumMerges balanced_merges(int count) {
  return count <= 0 ? SumMerges() : merges_of(count, std::vector<int>(static_cast<std::size_t>(count), 1));
}

double tree_sum(std::span<const double> values) {
  if (values.size() <= 1) return values.empty() ? 0 : values.front();
  const auto half = static_cast<std::size_t>(first_half(static_cast<int>(values.size())));
  return tree_sum(values.first(half)) + tree_sum(values.subspan(half));
}

CounterStep counter_step(int round, int num_rounds) {
  const auto number = static_cast<unsigned>(round);
  const int before = std::popcount(number);  // partial sums
  CounterStep step{.position = before};
  if (round % 2 == 1) step = {.position = before - 1, .adds = true, .merges = std::countr_one(number) - 1};
  if (round == num_rounds - 1) step.merges = step.position;
  return step;
}

int counter_depth(int num_rounds) {
  int depth = 1;
  for (int round = 0; round < num_rounds; ++round)
    depth = std::max(depth, counter_step(round, num_rounds).position + 1);
  return depth;
}

Leaves::Leaves(int count, int ranks, Reduce reduce) : count_(count), reduce_(reduce) {
  const auto refuse = [count](std::string_view reason, std::string_view remedy) {
    throw ConfigError("train.leaves", fmt::format("{}", count), reason, remedy);
  };
  if (count < ranks)
    refuse(fmt::format("{} ranks have no leaf each", ranks),
           fmt::format("use {} leaves or more, or at most {} ranks", ranks, count));
  const bool rounds = std::has_single_bit(static_cast<unsigned>(ranks)) && count % ranks == 0;
  if (reduce == Reduce::kAuto) reduce_ = rounds ? Reduce::kEach : Reduce::kLast;
  if (reduce_ == Reduce::kEach && !rounds)
    refuse(fmt::format("after each micro-batch {} ranks would not sum an aligned part of the tree", ranks),
           fmt::format("set train.reduce = \"last\", or use a power of two of ranks that divides {}", count));
  if (reduce_ == Reduce::kEach) {
    for (int rank = 0; rank < ranks; ++rank) first_.push_back(rank);
    size_.assign(static_cast<std::size_t>(ranks), count / ranks);
    merges_ = balanced_merges(ranks);
  } else {
    size_.assign(1, count);
    while (static_cast<int>(size_.size()) < ranks) {
      auto largest = size_.begin();  // the last of the largest
      for (auto size = size_.begin(); size != size_.end(); ++size)
        if (*size >= *largest) largest = size;
      const int half = first_half(*largest);
      *largest -= half;
      size_.insert(largest, half);
    }
    int first = 0;
    for (const int size : size_) first_.push_back(std::exchange(first, first + size));
    merges_ = merges_of(count, size_);
  }
  passes_ = std::ranges::max(size_);
}

int Leaves::leaf(int rank, int micro) const {
  if (micro < 0 || micro >= computed(rank)) return -1;
  const int first = first_[static_cast<std::size_t>(rank)];
  return reduce_ == Reduce::kEach ? first + micro * ranks() : first + micro;
}

}  // namespace zero
