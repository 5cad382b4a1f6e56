// Group: some of the ranks of a communicator, as a communicator of their own.
//
//   auto copy = open_group(world, {0, 1}, "copy 0");      // ranks 0 and 1 say so; ranks 2 and 3 say {2, 3}, "copy 1"
//   copy->all_gather(shard, full, {.unit = 3}).wait();    // between ranks 0 and 1 alone
//
// - To open one is Collective over the parent: every rank of it names the ranks of its own group, in ascending order,
//   or none. Those of a group must name the same ranks and the same name; otherwise every rank of the parent throws
//   the same CommError. A rank may be in any number of groups, opened one after the other; a group has groups, too.
// - A group is a Communicator in every respect. rank() is the place among its ranks and world() is their number; blocks
//   and sums go in that order. Every transport gives the same bits.
// - A group numbers its collectives and messages by itself, from 1, and compares them among its ranks. One thread may
//   begin works in the world and in its groups, in any order, and wait for them in any order that waits for nothing
//   its peers begin only later.
// - Errors name ranks of the world, and the group: "rank 3: barrier #2 of group copy 1 (ranks 2, 3): ...". A failure
//   anywhere is the run's: the world and all groups throw it from then on, on every rank.
// - traffic() and waited_seconds() are those of the group alone; its parent does not count them, too.
// - Memory that allocate() of one communicator of a run gives serves all others of that run.
// - A group is destroyed before its parent. It waits until its peers have read what they were given to read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

// Collective over `parent`; `ranks` are numbers in it. Null for a rank that names no ranks. Throws CommError.
std::unique_ptr<Communicator> open_group(Communicator& parent, const std::vector<int>& ranks, const std::string& name);

// Local. A group of this rank alone, of which no other rank needs to know.
std::unique_ptr<Communicator> open_alone(Communicator& parent, const std::string& name);

// What open_group() has found out, for the transport to make a group of it.
struct GroupPlace {
  std::string name;
  std::vector<int> ranks;    // of the world, ascending
  int place = 0;             // of this rank among them
  std::uint64_t number = 0;  // from 1: above that of every group that one of these ranks was in before

  // Local. "copy 1 (ranks 2, 3)"; of the ranks the first eight, and how many more.
  std::string text() const;
  // Local. " of group copy 1 (ranks 2, 3)": follows a collective in messages.
  std::string suffix() const;
};

// What a transport implements so that its communicators have groups.
class GroupOpener {
 public:
  virtual ~GroupOpener() = default;
  // Local. The number of this rank's newest group in this run; 0: it was in none.
  virtual std::uint64_t newest_group() const = 0;
  // Local. What the world calls a rank of this communicator.
  virtual int world_rank(int rank) const = 0;
  // Collective over the group.
  virtual std::unique_ptr<Communicator> open(const GroupPlace& place) = 0;
};

}  // namespace zero
