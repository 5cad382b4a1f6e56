#include "zero/plan/served/served_clock.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

namespace zero {
namespace {

constexpr std::int64_t kMostDraws = 2'000'000;
constexpr std::int64_t kMostClocks = 400;
constexpr std::int64_t kFewestClocks = 40;

// Returns the number of servers on a machine. The servers are the first ranks of all.
int servers_on(const SyncPlan& sync, const Cluster& cluster, int host) {
  return std::clamp(sync.servers - host * cluster.ranks, 0, cluster.ranks);
}

// Each worker exchanges `total` bytes with all servers in one direction, at most `largest` of them with one server.
struct Pairs {
  const SyncPlan& sync;
  const Cluster& cluster;
  double total;
  double largest;

  Pairs(const SyncPlan& plan, const Cluster& on, double bytes, double largest_part)
      : sync(plan), cluster(on), total(bytes), largest(bytes * std::max(largest_part, 1.0 / plan.servers)) {}
  // Returns the most bytes that a worker exchanges with so many servers.
  double with(double servers) const { return std::min(servers * largest, total); }

  double workers() const { return sync.num_workers(cluster.world()); }
  // Returns the bytes of the busiest machine; links are full duplex. `for_workers`: only the bytes of its own workers.
  double leaving(bool for_workers) const {
    double most = 0;
    for (int host = 0; host < cluster.hosts; ++host) {
      const double servers = servers_on(sync, cluster, host), workers_here = cluster.ranks - servers;
      const double by_workers = workers_here * with(sync.servers - servers);
      const double by_servers = for_workers ? 0 : (workers() - workers_here) * with(servers);
      most = std::max({most, by_workers, by_servers});
    }
    return most;
  }
  // Returns the bytes of the busiest rank with other ranks of its machine.
  double within(bool for_workers) const {
    double most = 0;
    for (int host = 0; host < cluster.hosts; ++host) {
      const double servers = servers_on(sync, cluster, host), workers_here = cluster.ranks - servers;
      if (workers_here > 0) most = std::max(most, with(servers));
      if (servers > 0 && !for_workers) most = std::max(most, workers_here * largest);
    }
    return most;
  }
};

Exchange exchange_of(const Pairs& pairs, bool for_workers, int messages) {
  const double leaving = pairs.leaving(for_workers);
  return {.within = pairs.within(for_workers),
          .leaving = leaving,
          .delay = leaving > 0 ? messages * pairs.cluster.latency : 0};
}

bool reads_old_weights(const SyncPlan& sync) {
  return sync.mode != SyncMode::kSync && sync.staleness > 0;
}

// The seconds that each worker computes in a clock.
class Computations {
 public:
  Computations(const SyncPlan& sync, const Cluster& cluster, double seconds)
      : jitter_(cluster.jitter * seconds), seconds_(static_cast<std::size_t>(sync.num_workers(cluster.world()))) {
    for (std::size_t worker = 0; worker < seconds_.size(); ++worker) {
      const int rank = sync.rank_of_worker(static_cast<int>(worker)) % cluster.ranks;
      seconds_[worker] = seconds / (cluster.speeds.empty() ? 1 : cluster.speeds[static_cast<std::size_t>(rank)]);
    }
  }
  std::size_t size() const { return seconds_.size(); }
  // Returns the seconds of the worker's next clock. Exponentially distributed, computed from random bits because std's
  // distributions differ between libraries.
  double next(std::size_t worker) {
    if (jitter_ == 0) return seconds_[worker];
    const double uniform = (static_cast<double>(bits_()) + 0.5) / 4294967296.0;
    return seconds_[worker] - jitter_ * std::log(uniform);
  }

 private:
  double jitter_;
  std::vector<double> seconds_;
  std::mt19937 bits_;
};

// Returns the seconds of a worker's push and pull over a link that `sharers` workers use at random times, one transfer
// after the other. The worker computes for `computation` between two exchanges. `out`, `in`: seconds of the bytes of
// all sharers. Method: mean value analysis of a closed network with two stations (Reiser and Lavenberg, 1980).
double exchange_of_sharers(double computation, double out, double in, int sharers) {
  double before_out = 0, before_in = 0;  // mean number of other workers that a worker finds there
  double taken = 0;
  for (int number = 1; number <= sharers; ++number) {
    const double out_taken = out / sharers * (1 + before_out), in_taken = in / sharers * (1 + before_in);
    taken = out_taken + in_taken;
    const double clock = computation + taken;
    before_out = clock > 0 ? number * out_taken / clock : 0;
    before_in = clock > 0 ? number * in_taken / clock : 0;
  }
  return taken;
}

// Returns the exchange of a worker that waits only for its own transfers: over its machine's link or the servers' link,
// whichever takes longer.
double own_exchange(const SyncPlan& sync, const Cluster& cluster, double computation, const ServedTraffic& traffic) {
  const auto over_link = [&](const Exchange& push, const Exchange& pull, int sharers) {
    if (sharers == 0 || push.leaving + pull.leaving == 0) return 0.0;
    return exchange_of_sharers(computation, push.leaving / cluster.network, pull.leaving / cluster.network, sharers);
  };
  int fewest_servers = cluster.ranks;  // on any machine
  for (int host = 0; host < cluster.hosts; ++host)
    fewest_servers = std::min(fewest_servers, servers_on(sync, cluster, host));
  const int workers_here = cluster.ranks - fewest_servers;
  const int workers_elsewhere = sync.num_workers(cluster.world()) - (cluster.ranks - servers_on(sync, cluster, 0));
  const double beside = seconds_of({.within = traffic.own_push.within, .delay = traffic.own_push.delay}, cluster) +
                        seconds_of({.within = traffic.own_pull.within, .delay = traffic.own_pull.delay}, cluster);
  return beside + std::max(over_link(traffic.own_push, traffic.own_pull, workers_here),
                           over_link(traffic.push, traffic.pull, workers_elsewhere));
}

// Returns the time at which the last clock is applied. A worker begins its clock c when clock c - wait is applied.
double end_of_bounded(Computations& computations, std::int64_t wait, double own_exchange, std::int64_t clocks) {
  std::vector<double> ends(computations.size(), 0);
  std::deque<double> applied(static_cast<std::size_t>(std::min(wait, clocks)), 0);  // no clock waits for later clocks
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    double last = 0;
    for (std::size_t worker = 0; worker < ends.size(); ++worker) {
      ends[worker] = std::max(ends[worker], applied.front()) + computations.next(worker) + own_exchange;
      last = std::max(last, ends[worker]);
    }
    applied.pop_front();
    applied.push_back(last);
  }
  return applied.back();
}

// A clock ends with the last gradient of its quorum. A late worker takes the newest clock after it has finished its
// own.
double end_of_quorum(Computations& computations, std::size_t quorum, double exchange, std::int64_t clocks) {
  std::vector<double> free(computations.size(), 0), ends(free), sorted;
  double now = 0;
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    for (std::size_t worker = 0; worker < ends.size(); ++worker)
      ends[worker] = std::max(free[worker], now) + computations.next(worker);
    sorted = ends;
    std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(quorum - 1));
    const double applied = sorted[quorum - 1];
    for (std::size_t worker = 0; worker < ends.size(); ++worker) {
      const bool is_busy = free[worker] > applied;  // still computes a clock that is over
      if (!is_busy) free[worker] = ends[worker];
    }
    now = applied + exchange;
  }
  return now;
}

}  // namespace

Exchange ServedTraffic::total() const {
  Exchange both = push;
  both += pull;
  return both;
}

ServedTraffic traffic_of(const SyncPlan& sync, const ClockBytes& bytes, const Cluster& cluster) {
  const Pairs pushed(sync, cluster, bytes.pushed, bytes.largest_part);
  const Pairs pulled(sync, cluster, bytes.pulled, bytes.largest_part);
  return {.push = exchange_of(pushed, false, bytes.messages),
          .pull = exchange_of(pulled, false, bytes.messages),
          .own_push = exchange_of(pushed, true, bytes.messages),
          .own_pull = exchange_of(pulled, true, bytes.messages)};
}

double clock_seconds(const SyncPlan& sync, const Cluster& cluster, double computation, const ServedTraffic& traffic) {
  Computations computations(sync, cluster, computation);
  const auto workers = static_cast<std::int64_t>(computations.size());
  const std::int64_t clocks = std::clamp(kMostDraws / workers, kFewestClocks, kMostClocks);
  const double in_turn = seconds_of(traffic.push, cluster) + seconds_of(traffic.pull, cluster);
  double end = 0;
  if (sync.quorum > 0) {
    end = end_of_quorum(computations, static_cast<std::size_t>(sync.quorum), in_turn, clocks);
  } else if (!reads_old_weights(sync)) {
    end = end_of_bounded(computations, 1, in_turn, clocks);
  } else {
    const double mean = computation / cluster.mean() + cluster.jitter * computation;
    end = end_of_bounded(computations, std::int64_t{sync.staleness} + 1, own_exchange(sync, cluster, mean, traffic),
                         clocks);
  }
  // Both directions at once.
  const double links = std::max(seconds_of(traffic.push, cluster), seconds_of(traffic.pull, cluster));
  return std::max(end / static_cast<double>(clocks), links);
}

int num_used(const SyncPlan& sync, int world) {
  return sync.quorum > 0 ? sync.quorum : sync.num_workers(world);
}

}  // namespace zero
