// PushLayout: which elements of a worker's flat ranges each server owns, and in which type they are sent.
//
//   PushLayout layout(engine.specs(), options);               // the same on workers and servers
//   layout.part(unit, server).numel                           // elements of the worker's range that this server owns
//   layout.stretches(unit, server)                            // their positions (zero/plan/served/pushed_part.h)
//
// A worker's units are not cut, whatever cut the servers have (AttachOptions::shards). A part holds the elements that
// are sent: a server's shard without its padding. Values only; Local.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/plan/served/pushed_part.h"

namespace zero {

class PushLayout {
 public:
  struct Part {
    std::int64_t numel = 0;
    std::int64_t shard_numel = 0;            // elements of the server's shard, with padding
    std::optional<std::int64_t> together{};  // its begin in the worker's range if it is one stretch
  };

  // `options`: the options of the run, before server_options() or worker_options() changes them.
  PushLayout(const std::vector<ParamSpec>& specs, const AttachOptions& options);

  // Returns the units as a worker has them.
  const std::vector<Unit>& units() const { return units_; }
  int servers() const { return servers_; }
  // Returns a weight for each server if the servers divide units by weights; else an empty list.
  const std::vector<double>& weights() const { return weights_; }

  const Part& part(const Unit& unit, int server) const {
    return parts_[static_cast<std::size_t>(unit.index * servers_ + server)];
  }
  std::vector<PushedStretch> stretches(const Unit& unit, int server) const;
  // Returns the type of a pushed gradient. The sum of micro-batches is rounded to it.
  DType gradient_dtype(const Unit& unit) const { return fp32_sums_ ? DType::kFloat32 : unit.dtype; }

  std::int64_t gradient_bytes(const Unit& unit, int server) const {
    return part(unit, server).numel * static_cast<std::int64_t>(size_of(gradient_dtype(unit)));
  }
  // Returns the bytes of a whole push.
  std::int64_t push_bytes() const;
  std::int64_t weight_bytes(const Unit& unit, int server) const {
    return part(unit, server).numel * static_cast<std::int64_t>(size_of(unit.dtype));
  }
  // Returns the bytes of a worker's block for this server. It holds the largest part of several stretches, as gradients
  // or weights. 0: there is no such part.
  std::int64_t block_bytes(int server) const;

 private:
  std::vector<Unit> units_, cut_;
  int servers_;
  bool fp32_sums_;
  std::vector<double> weights_;
  std::vector<Part> parts_;  // by unit and server
};

}  // namespace zero
