// Group: some of the ranks of a communicator, as a communicator of their own.
//
//   auto copy = open_group(world, {0, 1}, "copy 0");      // on ranks 0 and 1; ranks 2 and 3 pass {2, 3}, "copy 1"
//   copy->all_gather(shard, full, {.unit = 3}).wait();    // only between ranks 0 and 1
//
// - A group is a full Communicator. rank() is the position among its ranks, world() is their number; blocks and sums
//   have that order. Every transport gives the same bits. A group can have groups.
// - A group numbers its collectives and messages by itself, from 1. One thread may begin works in the world and in its
//   groups in any order, and wait for them in any order. But it deadlocks if it waits for a work that a peer begins
//   only after this thread's next call.
// - Errors name ranks of the world, and the group: "rank 3: barrier #2 of group copy 1 (ranks 2, 3): ...". A failure
//   anywhere is the run's: the world and all groups throw it from then on, on every rank.
// - traffic() and waited_seconds() count only the group, and the parent does not count them again. Memory from
//   allocate() of one communicator serves all others of the run.
// - A group must be destroyed before its parent. Its destructor waits until peers have read all inputs of this rank.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

// Opens a group. Collective over `parent`: every rank passes the ranks of its own group, as ascending numbers in
// `parent`, or none; the result is then null. Members must pass the same ranks and the same name; otherwise every rank
// of `parent` throws the same CommError. A rank may be in any number of groups, opened one after the other.
std::unique_ptr<Communicator> open_group(Communicator& parent, const std::vector<int>& ranks, const std::string& name);

// Local. Opens a group of only this rank, of which no other rank needs to know.
std::unique_ptr<Communicator> open_alone(Communicator& parent, const std::string& name);

// The agreed description of a group, from which the transport makes it.
struct GroupPlace {
  std::string name;
  std::vector<int> ranks;    // ranks of the world, ascending
  int place = 0;             // position of this rank among them
  std::uint64_t number = 0;  // from 1: above every earlier group of these ranks

  // Local. Returns "copy 1 (ranks 2, 3)": the first eight ranks, and how many more.
  std::string text() const;
  // Local. Returns " of group copy 1 (ranks 2, 3)", which follows a collective in messages.
  std::string suffix() const;
};

// The part of a transport that opens groups.
class GroupOpener {
 public:
  virtual ~GroupOpener() = default;
  // Local. Returns the number of this rank's newest group in this run; 0: it was in none.
  virtual std::uint64_t newest_group() const = 0;
  // Local. Converts a rank of this communicator to a rank of the world.
  virtual int world_rank(int rank) const = 0;
  // Collective over the group. Opens it.
  virtual std::unique_ptr<Communicator> open(const GroupPlace& place) = 0;
};

}  // namespace zero
