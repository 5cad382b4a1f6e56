// Cluster: the machines of a run and the links between them, as a user describes them. It predicts the bytes on each
// link.
//
//   const Cluster cluster{.hosts = 4, .ranks = 8, .network = 12.5e9};
//   const Exchange step = exchange_of_step(units, mesh, placement, cluster);
//   seconds_of(step, cluster)                       // if nothing overlaps with computation
//
// Ranks are numbered machine by machine. In a gather or a reduction, a rank sends directly to each other rank of its
// group. So the ranks on a machine determine the bytes that leave it. A machine's ranks share its full-duplex link. If
// shards differ in size (zero/plan/units/weighted_cut.h), so do the bytes that ranks send. Each message that waits for
// an earlier message adds `latency`. A unit's gradient passes from copy to copy in pieces (copy_pieces.h), which follow
// each other through the chain; the first piece fills the chain.
//
// Values only; Local. Thousands of ranks take microseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/units/mesh.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

struct Cluster {
  int hosts = 1;
  int ranks = 1;  // number of ranks per machine
  // bytes a second that leave a machine, and that can enter it at the same time; needed with several machines
  double network = 0;
  double within = 0;           // bytes a second that a rank sends to ranks of its own machine; 0: not counted
  double latency = 0;          // seconds that a message between machines takes at least
  double flops = 0;            // flops per second of a rank, in matrix products; 0: unknown
  std::int64_t memory = 0;     // bytes that a rank has for training; 0: unknown
  std::vector<double> speeds;  // speed of each machine's ranks, relative to `flops`; empty: all 1
  // Mean of a rank's random extra compute time, as a fraction of its computation; exponentially distributed. 0: none.
  double jitter = 0;

  int world() const { return hosts * ranks; }
  int host_of(int rank) const { return rank / ranks; }
  double slowest() const;  // the lowest of the speeds
  double mean() const;
};

// Returns the mean seconds until `ranks` ranks have finished, if each computes `computation` seconds at speed 1. It is
// the time of the slowest speed. With jitter, 1 + 1/2 + ... + 1/N times the mean extra time is added for N ranks.
double seconds_of_all(double computation, std::int64_t ranks, const Cluster& cluster);

struct Exchange {
  double within = 0;   // bytes to other ranks of the same machine, from the rank that sends most
  double leaving = 0;  // bytes that leave a machine, for the machine that sends most
  // seconds beside those of the bytes: messages that follow each other, and a chain of copies that fills
  double delay = 0;
  Exchange& operator+=(const Exchange& other);
};

// Counts a step: gathers and reductions within a copy, gathers of secondary parts within their groups, and gradients
// between copies.
Exchange exchange_of_step(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement,
                          const Cluster& cluster);
// Counts an outer step of copies that train apart.
Exchange exchange_of_outer_step(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement,
                                const Cluster& cluster);

// Returns the seconds of all bytes on the links, one kind of link after the other, plus the delay.
double seconds_of(const Exchange& exchange, const Cluster& cluster);

}  // namespace zero
