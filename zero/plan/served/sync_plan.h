// SyncPlan: which ranks of a run are servers, and when workers wait for each other.
//
//   const SyncPlan plan{.mode = SyncMode::kStale, .servers = 1, .staleness = 2};
//   require_possible(plan, world);                  // before anything is allocated
//   plan.is_server(rank); plan.worker_of(rank);     // servers are the first ranks: rank 0 is their head
//
// A server holds a part of all states and updates it. A worker computes gradients, sends them to the servers (push),
// and receives new weights from them (pull). Clock c is a worker's step number c, from 0. Version v is the weights
// after v updates. Values only; Local.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace zero {

// When updates happen:
// - kSync: the update of clock c applies the mean of all workers' gradients, or of the first `quorum` that arrive.
// - kStale: the update is the mean of all; a worker computes its gradient of clock c with exactly version max(0, c -
//   staleness).
// - kAsync: each gradient is applied when it arrives. A worker begins clock c when the slowest has done clock c -
//   staleness - 1.
enum class SyncMode : std::uint8_t { kSync, kStale, kAsync };
std::string_view name_of(SyncMode mode);  // "sync", "stale", "async"

// The largest staleness of kStale: a server keeps that many older versions of the weights, and as many pushes.
inline constexpr int kMostStaleness = 1000;

struct SyncPlan {
  SyncMode mode = SyncMode::kSync;
  int servers = 0;      // 0: every rank computes, and holds a part of the states
  int staleness = 0;    // bound in clocks, for kStale (up to kMostStaleness) and kAsync
  int quorum = 0;       // gradients that an update of kSync waits for; 0: all
  double stale_lr = 1;  // kAsync: the learning rate of a gradient of age a is lr / (1 + a)^stale_lr
  // For kAsync: strength of the correction of a gradient for the updates since its weights
  // (zero/serve/pulled_weights.h); 0: off.
  double compensation = 0;

  bool has_servers() const { return servers > 0; }
  bool is_server(int rank) const { return rank < servers; }
  int num_workers(int world) const { return world - servers; }
  int worker_of(int rank) const { return rank - servers; }
  int rank_of_worker(int worker) const { return servers + worker; }
  // Returns the versions of the weights that servers keep for workers that are behind, including the newest.
  int num_versions() const { return mode == SyncMode::kStale ? staleness + 1 : 1; }
  // Returns whether the run continues after a worker is lost.
  bool spares_workers() const { return mode == SyncMode::kAsync || quorum > 0; }
  // Returns the learning rate for a gradient of this age. `lr`: the rate of a gradient of age 0.
  double lr_of(double lr, std::int64_t age) const {
    return mode == SyncMode::kAsync ? lr / std::pow(1.0 + static_cast<double>(age), stale_lr) : lr;
  }
  // Returns the number of workers that an update can do without.
  int num_spared(int workers) const {
    return mode == SyncMode::kAsync ? workers - 1 : quorum > 0 ? workers - quorum : 0;
  }
  // Returns how many older versions a server holds at most, in addition, while workers still read them
  // (zero/plan/served/version_places.h). It is one per worker that an update can do without, up to four.
  int num_older_versions(int workers) const { return num_spared(workers) < 4 ? num_spared(workers) : 4; }
  // Returns the most gradients of one worker that servers hold at a time.
  int num_held_pushes() const { return mode == SyncMode::kStale ? staleness + 1 : 1; }
  bool operator==(const SyncPlan&) const = default;
};

// Throws ConfigError under "sync.mode", "sync.servers", "sync.staleness", "sync.quorum", "sync.stale_lr" or
// "sync.compensation".
void require_possible(const SyncPlan& plan, int world);

}  // namespace zero
