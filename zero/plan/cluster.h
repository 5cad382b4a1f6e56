// Cluster: the machines of a run and the links between them, as a user describes them, and the bytes that cross them.
//
//   const Cluster cluster{.hosts = 4, .ranks = 8, .network = 12.5e9};
//   const Exchange step = exchange_of_step(units, mesh, placement, cluster);
//   seconds_of(step, cluster)                       // if nothing of it hides behind computation
//
// Ranks are numbered machine by machine. A rank sends its part of a gather or a reduction to each other rank of its group
// directly, so the bytes that leave a machine follow from which ranks are on it. The ranks of a machine share its link; both
// directions are as fast and carry as much. Where shards differ in size (zero/plan/weighted_cut.h), so do the bytes of ranks. Messages that follow each other each take `latency` more. A unit's gradient passes
// from copy to copy in pieces (copy_pieces.h), which follow each other through that chain; the first one passes all of it alone.
//
// Values only; Local. Thousands of ranks take microseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/mesh.h"
#include "zero/plan/placement.h"
#include "zero/plan/unit.h"

namespace zero {

struct Cluster {
  int hosts = 1;
  int ranks = 1;               // of a machine
  double network = 0;          // bytes a second that leave a machine; as many may come. Needed with several machines
  double within = 0;           // bytes a second that a rank sends to ranks of its own machine; 0: not counted
  double latency = 0;          // seconds that a message between machines takes at least
  double flops = 0;            // of a rank a second, in matrix products; 0: not known
  std::int64_t memory = 0;     // bytes that a rank has for training; 0: not known
  std::vector<double> speeds;  // of the ranks of each machine, where 1 is the speed of `flops`; empty: all 1
  // By how much of its computation a rank takes longer now and then, in the mean: exponentially distributed. 0: it is even.
  double jitter = 0;

  int world() const { return hosts * ranks; }
  int host_of(int rank) const { return rank / ranks; }
  double slowest() const;  // of the speeds
  double mean() const;
};

// Seconds until `ranks` that each compute for `computation` at speed 1 are all done, in the mean: those of the slowest rank, and
// of N that vary the jitter's 1 + 1/2 + ... + 1/N times.
double seconds_of_all(double computation, std::int64_t ranks, const Cluster& cluster);

struct Exchange {
  double within = 0;   // bytes that a rank sends to others of its machine; of the rank that sends most
  double leaving = 0;  // bytes that leave a machine; of the machine that sends most
  double delay = 0;  // seconds beside those of the bytes: messages that follow each other, a chain of copies that fills
  Exchange& operator+=(const Exchange& other);
};

// In a step: gathers and reductions within a copy of the model, gathers of secondary parts within their groups, and gradients
// that cross between copies.
Exchange exchange_of_step(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement,
                          const Cluster& cluster);
// In an outer step, of copies that train apart.
Exchange exchange_of_outer_step(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement,
                                const Cluster& cluster);

// The time of its bytes on the links, one kind after the other, and its delay.
double seconds_of(const Exchange& exchange, const Cluster& cluster);

}  // namespace zero
