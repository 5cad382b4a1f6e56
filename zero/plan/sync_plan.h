// SyncPlan: which ranks of a run are servers, and when workers wait for each other.
//
//   const SyncPlan plan{.mode = SyncMode::kStale, .servers = 1, .staleness = 2};
//   require_possible(plan, world);                  // before anything is allocated
//   plan.is_server(rank); plan.worker_of(rank);     // servers are the first ranks: rank 0 is their head
//
// A server holds a part of all states and updates it. A worker computes gradients, sends them to the servers (a push), and
// takes new weights from them (a pull). Clock c of a worker is its c-th step, from 0; version v of the weights is what v
// updates have made of the first ones.
//
// - kSync: the update of clock c is the mean of the gradients of all workers, or of the first `quorum` that come.
// - kStale: the same mean of all; a worker computes its gradient of clock c with version max(0, c - staleness), exactly.
// - kAsync: each gradient is applied as it comes. A worker begins clock c when the slowest has done clock
//   c - staleness - 1.
//
// Values only; Local.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace zero {

enum class SyncMode : std::uint8_t { kSync, kStale, kAsync };
std::string_view name_of(SyncMode mode);  // "sync", "stale", "async"

struct SyncPlan {
  SyncMode mode = SyncMode::kSync;
  int servers = 0;      // 0: every rank computes, and holds a part of the states
  int staleness = 0;    // clocks; of kStale and kAsync
  int quorum = 0;       // gradients that an update of kSync waits for; 0: all
  double stale_lr = 1;  // of kAsync: the learning rate of a gradient of age a is lr / (1 + a)^stale_lr
  // Of kAsync: how much a gradient is corrected for the updates since its weights (zero/serve/pulled_weights.h); 0: not.
  double compensation = 0;

  bool has_servers() const { return servers > 0; }
  bool is_server(int rank) const { return rank < servers; }
  int num_workers(int world) const { return world - servers; }
  int worker_of(int rank) const { return rank - servers; }
  int rank_of_worker(int worker) const { return servers + worker; }
  // Versions of the weights that servers keep for workers that are behind, the newest among them.
  int num_versions() const { return mode == SyncMode::kStale ? staleness + 1 : 1; }
  // A worker that is lost does not end the run.
  bool spares_workers() const { return mode == SyncMode::kAsync || quorum > 0; }
  // For a gradient whose weights are `age` updates old, where `lr` is for a new one.
  double lr_of(double lr, std::int64_t age) const {
    return mode == SyncMode::kAsync ? lr / std::pow(1.0 + static_cast<double>(age), stale_lr) : lr;
  }
  // Workers that an update can do without.
  int num_spared(int workers) const {
    return mode == SyncMode::kAsync ? workers - 1 : quorum > 0 ? workers - quorum : 0;
  }
  // Older versions that a server holds beside these, at most, while workers still read them (zero/plan/version_places.h):
  // one for each worker that an update can do without, up to four.
  int num_older_versions(int workers) const { return num_spared(workers) < 4 ? num_spared(workers) : 4; }
  // The most gradients of one worker that servers hold at a time.
  int num_held_pushes() const { return mode == SyncMode::kStale ? staleness + 1 : 1; }
  bool operator==(const SyncPlan&) const = default;
};

// Throws ConfigError under "sync.mode", "sync.servers", "sync.staleness", "sync.quorum", "sync.stale_lr" or
// "sync.compensation".
void require_possible(const SyncPlan& plan, int world);

}  // namespace zero
