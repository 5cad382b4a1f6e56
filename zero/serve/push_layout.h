// PushLayout: which elements of a worker's flat ranges go to which server, and in which type.
//
//   PushLayout layout(engine.specs(), options);               // alike on a worker and on a server
//   layout.part(unit, server).numel                           // of the worker's range: what this server owns of it
//   layout.stretches(unit, server)                            // where both have it (zero/plan/pushed_part.h)
//
// A worker's units are uncut, whatever cut the servers have (EngineOptions::shards). A part is what crosses: a server's shard
// without its padding. Values only; Local.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zero/engine/options.h"
#include "zero/plan/pushed_part.h"

namespace zero {

class PushLayout {
 public:
  struct Part {
    std::int64_t numel = 0;
    std::int64_t shard_numel = 0;            // of the server's shard, padding included
    std::optional<std::int64_t> together{};  // where it begins in the worker's range, if it is one stretch
  };

  // `options`: those of the run, before they are a server's or a worker's.
  PushLayout(const std::vector<ParamSpec>& specs, const EngineOptions& options);

  // As a worker has them.
  const std::vector<Unit>& units() const { return units_; }
  int servers() const { return servers_; }
  // A weight for each server, where they divide units by weights; else empty.
  const std::vector<double>& weights() const { return weights_; }

  const Part& part(const Unit& unit, int server) const {
    return parts_[static_cast<std::size_t>(unit.index * servers_ + server)];
  }
  std::vector<PushedStretch> stretches(const Unit& unit, int server) const;
  // Of a pushed gradient: what the sum of micro-batches is rounded to.
  DType gradient_dtype(const Unit& unit) const { return fp32_sums_ ? DType::kFloat32 : unit.dtype; }

  std::int64_t gradient_bytes(const Unit& unit, int server) const {
    return part(unit, server).numel * static_cast<std::int64_t>(size_of(gradient_dtype(unit)));
  }
  // Of a whole push.
  std::int64_t push_bytes() const;
  std::int64_t weight_bytes(const Unit& unit, int server) const {
    return part(unit, server).numel * static_cast<std::int64_t>(size_of(unit.dtype));
  }
  // Of a worker's block for this server: its largest part of several stretches, as gradients or weights; 0: there is none.
  std::int64_t block_bytes(int server) const;

 private:
  std::vector<Unit> units_, cut_;
  int servers_;
  bool fp32_sums_;
  std::vector<double> weights_;
  std::vector<Part> parts_;  // by unit and server
};

}  // namespace zero
