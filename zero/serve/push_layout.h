// PushLayout: which elements of a worker's flat ranges go to which server, and in which type.
//
//   PushLayout layout(units, options, servers);
//   const Shard part = layout.part(unit, server);      // of the worker's range: what this server owns of it
//
// A worker's range is padded for one rank, a server's shards for all servers: the last parts may be shorter than shards,
// or empty. Values only; Local.
#pragma once

#include <algorithm>
#include <vector>

#include "zero/engine/options.h"
#include "zero/plan/partition.h"

namespace zero {

class PushLayout {
 public:
  PushLayout(std::vector<Unit> units, const EngineOptions& options)
      : units_(std::move(units)), servers_(options.sync.servers), fp32_sums_(options.reduce_dtype == DType::kFloat32) {}

  const std::vector<Unit>& units() const { return units_; }
  int servers() const { return servers_; }

  Shard part(const Unit& unit, int server) const {
    const Shard shard = shard_of(unit, server, servers_);
    return {shard.offset, std::clamp<std::int64_t>(padded_numel(unit, 1) - shard.offset, 0, shard.numel)};
  }
  // Of a pushed gradient: what the sum of micro-batches is rounded to.
  DType gradient_dtype(const Unit& unit) const { return fp32_sums_ ? DType::kFloat32 : unit.dtype; }

  std::int64_t gradient_bytes(const Unit& unit, int server) const {
    return part(unit, server).numel * static_cast<std::int64_t>(size_of(gradient_dtype(unit)));
  }
  // Of a whole push.
  std::int64_t push_bytes() const {
    std::int64_t bytes = 0;
    for (const Unit& unit : units_)
      for (int server = 0; unit.trainable && server < servers_; ++server) bytes += gradient_bytes(unit, server);
    return bytes;
  }
  std::int64_t weight_bytes(const Unit& unit, int server) const {
    return part(unit, server).numel * static_cast<std::int64_t>(size_of(unit.dtype));
  }

 private:
  std::vector<Unit> units_;
  int servers_;
  bool fp32_sums_;
};

}  // namespace zero
