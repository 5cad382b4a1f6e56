#include "zero/plan/cluster/cluster.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "zero/plan/units/copy_pieces.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/weighted_cut.h"

namespace zero {
namespace {

// Sums sent bytes by machine and by rank.
class Senders {
 public:
  explicit Senders(const Cluster& cluster)
      : cluster_(cluster),
        within_(static_cast<std::size_t>(cluster.world())),
        leaving_(static_cast<std::size_t>(cluster.hosts)) {}

  void add(int from, double within, double leaving) {
    within_[static_cast<std::size_t>(from)] += within;
    leaving_[static_cast<std::size_t>(cluster_.host_of(from))] += leaving;
  }
  void send(int from, int to, double bytes) {
    const bool leaves = cluster_.host_of(from) != cluster_.host_of(to);
    add(from, leaves ? 0 : bytes, leaves ? bytes : 0);
  }
  // Returns the largest sums. `messages`: the number of messages between machines that follow each other.
  Exchange exchange(double messages) const {
    const double leaving = most(leaving_);
    return {most(within_), leaving, leaving > 0 ? messages * cluster_.latency : 0};
  }

 private:
  static double most(const std::vector<double>& bytes) { return *std::ranges::max_element(bytes); }

  const Cluster& cluster_;
  std::vector<double> within_;   // bytes of each rank
  std::vector<double> leaving_;  // bytes of each machine
};

// Counts the ranks in [first, first + count) that are on the machine of `rank`.
int on_host_of(int rank, int first, int count, const Cluster& cluster) {
  const int begin = cluster.host_of(rank) * cluster.ranks;
  return std::max(0, std::min(first + count, begin + cluster.ranks) - std::max(first, begin));
}

// Each rank sends `bytes` in total to the other ranks of its copy, the same amount to each.
void send_within_copies(Senders& senders, const Mesh& mesh, const Cluster& cluster, double bytes) {
  if (mesh.shard == 1) return;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const int here = on_host_of(rank, mesh.copy_of(rank) * mesh.shard, mesh.shard, cluster);
    const double each = bytes / (mesh.shard - 1);
    senders.add(rank, each * (here - 1), each * (mesh.shard - here));
  }
}

// Counts the same for shards of different sizes. In a gather a rank sends its own shard to every other rank. In a
// reduction it sends every other rank that rank's shard. Everything but reductions counts as a gather.
void send_uneven_within_copies(Senders& senders, const Mesh& mesh, const Cluster& cluster, std::vector<Unit> units,
                               const Placement& placement) {
  if (mesh.shard == 1) return;
  std::vector<double> gathered, reduced{0};  // bytes by position in the copy; `reduced`: prefix sums
  for (int place = 0; place < mesh.shard; ++place) {
    units = as_seen_by(std::move(units), place);
    double reductions = 0;
    std::int64_t reducing = 0;
    for (const Unit& unit : units) {
      const int times = collectives_of(unit, placement).reductions;
      const std::int64_t shard =
          shard_numel(unit, mesh.shard) * static_cast<std::int64_t>(size_of(wire_dtype(placement, unit)));
      reductions += static_cast<double>(times * shard);
      reducing += times * reduction_bytes(unit, mesh.shard, placement, WireCodec::kNone);
    }
    const std::int64_t gathering = sent_bytes(units, mesh.shard, placement) - reducing;
    gathered.push_back(static_cast<double>(gathering) / (mesh.shard - 1));
    reduced.push_back(reduced.back() + reductions);
  }
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const int copy = mesh.copy_of(rank) * mesh.shard, place = mesh.shard_of(rank);
    const int here = on_host_of(rank, copy, mesh.shard, cluster);
    // position of the first rank of this machine
    const int first = std::max(copy, cluster.host_of(rank) * cluster.ranks) - copy;
    const double to_here = reduced[static_cast<std::size_t>(first + here)] - reduced[static_cast<std::size_t>(first)];
    const auto own = static_cast<std::size_t>(place);
    senders.add(rank, gathered[own] * (here - 1) + to_here - (reduced[own + 1] - reduced[own]),
                gathered[own] * (mesh.shard - here) + reduced.back() - to_here);
  }
}

// Partial sums pass from each copy to the next, and the total passes back (mesh.h).
void send_along_copies(Senders& senders, const Mesh& mesh, double crossing) {
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const int copy = mesh.copy_of(rank);
    if (copy + 1 < mesh.copies) senders.send(rank, rank + mesh.shard, crossing);
    if (copy > 0) senders.send(rank, rank - mesh.shard, crossing);
  }
}

// Each rank sends `bytes` in total to the ranks with the same shard in other copies, the same amount to each.
void send_across_copies(Senders& senders, const Mesh& mesh, const Cluster& cluster, double bytes) {
  const double each = bytes / (mesh.copies - 1);
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const int begin = cluster.host_of(rank) * cluster.ranks;
    int here = 0;  // ranks with the same shard on this machine
    for (int other = begin; other < begin + cluster.ranks; ++other)
      here += mesh.shard_of(other) == mesh.shard_of(rank) ? 1 : 0;
    senders.add(rank, each * (here - 1), each * (mesh.copies - here));
  }
}

// A copy's collectives in a step, one after the other. Collectives of a secondary group are counted separately, in
// `of_parts`.
struct Calls {
  int all = 0;
  int reductions = 0;
  int of_parts = 0;
};

Calls calls_of(const std::vector<Unit>& units, const Placement& placement) {
  Calls calls;
  for (const Unit& unit : units) {
    const StepCollectives one = collectives_of(unit, placement);
    calls.all += one.reductions + one.gathers;
    calls.reductions += one.reductions;
    calls.of_parts += one.part_gathers;
  }
  return calls;
}

}  // namespace

double Cluster::slowest() const {
  return speeds.empty() ? 1 : *std::ranges::min_element(speeds);
}

double Cluster::mean() const {
  return speeds.empty() ? 1 : std::accumulate(speeds.begin(), speeds.end(), 0.0) / static_cast<double>(speeds.size());
}

double seconds_of_all(double computation, std::int64_t ranks, const Cluster& cluster) {
  double harmonic = 0;
  if (cluster.jitter > 0)
    for (std::int64_t rank = 1; rank <= ranks; ++rank) harmonic += 1.0 / static_cast<double>(rank);
  return computation / cluster.slowest() + cluster.jitter * computation * harmonic;
}

Exchange& Exchange::operator+=(const Exchange& other) {
  within += other.within;
  leaving += other.leaving;
  delay += other.delay;
  return *this;
}

Exchange exchange_of_step(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement,
                          const Cluster& cluster) {
  const Calls calls = calls_of(units, placement);
  Senders within(cluster), among(cluster), along(cluster);
  const std::int64_t parts = part_sent_bytes(units, mesh.shard, placement);
  const bool uneven = std::ranges::any_of(units, [](const Unit& unit) { return !unit.bounds.empty(); });
  if (uneven)
    send_uneven_within_copies(within, mesh, cluster, units, placement);
  else
    send_within_copies(within, mesh, cluster, static_cast<double>(sent_bytes(units, mesh.shard, placement) - parts));
  Exchange exchange = within.exchange(calls.all);
  if (parts > 0) {
    // secondary groups are numbered like the copies of a mesh whose copies have `group` ranks
    const int group = placement.secondary_group;
    send_within_copies(among, {.shard = group, .copies = mesh.world() / group}, cluster, static_cast<double>(parts));
    exchange += among.exchange(calls.of_parts);
  }
  if (mesh.copies == 1 || placement.merged_copies > 1) return exchange;
  const int rounds = placement.reduce_each ? placement.accumulate : 1;
  const WireCodec codec = placement.wire.outer;
  double crossing = 0;
  for (const Unit& unit : units) crossing += static_cast<double>(rounds * crossing_bytes(unit, mesh, codec));
  if (codec != WireCodec::kNone) {
    send_across_copies(along, mesh, cluster, crossing);
    exchange += along.exchange(2.0 * calls.reductions);  // a reduction and a gather
    return exchange;
  }
  send_along_copies(along, mesh, crossing);
  // The chain from the first copy to the last crosses these borders between machines, in so many passages.
  const int borders = std::min(mesh.copies, cluster.hosts) - 1;
  const int passages = mesh.copies - 1;
  const Exchange between = along.exchange(2.0 * borders);
  exchange += between;
  // Seconds of one piece of a unit from a copy to the next. Over a network, all pairs of ranks on the two sides of a
  // border between machines send at once.
  const double reductions = std::max(1, calls.reductions);
  const double unit = crossing / reductions;
  const auto numel = static_cast<std::int64_t>(unit / sizeof(float));
  const auto pieces =
      std::max(1.0, std::ceil(static_cast<double>(numel) / static_cast<double>(copy_piece_numel(numel))));
  const int pairs = std::min(mesh.shard, cluster.ranks);
  const double over_network = cluster.network > 0 ? pairs * unit / pieces / cluster.network : 0;
  const double within_host = cluster.within > 0 ? unit / pieces / cluster.within : 0;
  // partial sums up the chain, and totals back down
  const double round = 2 * (borders * over_network + (passages - borders) * within_host);
  // The first piece's way up and the last piece's way down overlap with nothing. The bytes counted above include only
  // one passage of them. Only the pieces of two units are under way at a time, so a long chain takes longer than its
  // bytes.
  exchange.delay += round - (borders > 0 ? over_network : within_host);
  const double bytes = seconds_of({.within = between.within, .leaving = between.leaving}, cluster);
  const double under_way = std::min<double>(kMostPiecesAhead, 2 * pieces);
  const double waiting = 2 * borders * cluster.latency;
  exchange.delay += std::max(0.0, reductions * pieces * (round + waiting) / under_way - bytes);
  return exchange;
}

Exchange exchange_of_outer_step(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement,
                                const Cluster& cluster) {
  if (mesh.copies == 1) return {};
  const OuterBytes bytes = outer_bytes(units, mesh, placement);
  Senders senders(cluster);
  send_across_copies(senders, mesh, cluster, static_cast<double>(bytes.between_copies));
  send_within_copies(senders, mesh, cluster, static_cast<double>(bytes.within));
  // Per unit: a reduction and a gather over the copies (with top-k only a gather), and a gather within a copy if states
  // are whole.
  const int of_unit = (placement.wire.outer_topk > 0 ? 1 : 2) + (bytes.within > 0 ? 1 : 0);
  double messages = 0;
  for (const Unit& unit : units) messages += unit.trainable ? of_unit : 0;
  return senders.exchange(messages);
}

double seconds_of(const Exchange& exchange, const Cluster& cluster) {
  double seconds = exchange.delay;
  if (cluster.within > 0) seconds += exchange.within / cluster.within;
  if (cluster.network > 0) seconds += exchange.leaving / cluster.network;
  return seconds;
}

}  // namespace zero
