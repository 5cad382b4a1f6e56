#include "zero/checkpoint/read/launchers.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

// Checks the launchers on every rank.
void expect_launchers(const std::vector<std::string>& names, const std::vector<int>& of,
                      const std::vector<int>& first_ranks) {
  on_ranks(static_cast<int>(names.size()), [&](Communicator& comm) {
    const Launchers launchers(comm, names[static_cast<std::size_t>(comm.rank())]);
    EXPECT_EQ(launchers.count(), static_cast<int>(first_ranks.size()));
    for (int rank = 0; rank < static_cast<int>(of.size()); ++rank) {
      EXPECT_EQ(launchers.of(rank), of[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(launchers.is_first(rank), launchers.first_rank(launchers.of(rank)) == rank);
    }
    for (int launcher = 0; launcher < launchers.count(); ++launcher)
      EXPECT_EQ(launchers.first_rank(launcher), first_ranks[static_cast<std::size_t>(launcher)]);
  });
}

TEST(Launchers, OneNameIsOneLauncher) {
  expect_launchers({"a"}, {0}, {0});
  expect_launchers({"a", "a", "a"}, {0, 0, 0}, {0});
  expect_launchers({"b", "b", "a", "a"}, {0, 0, 1, 1}, {0, 2});
  expect_launchers({"b", "a", "b", "c"}, {0, 1, 0, 2}, {0, 1, 3});
}

}  // namespace
}  // namespace zero
