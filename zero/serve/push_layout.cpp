#include "zero/serve/push_layout.h"

#include <algorithm>

#include "zero/engine/options/options.h"
#include "zero/plan/units/partition.h"

namespace zero {

PushLayout::PushLayout(const std::vector<ParamSpec>& specs, const AttachOptions& options)
    : units_(units_of(specs, 1, with_equal_ranges(options))),
      cut_(units_of(specs, options.sync.servers, options)),
      servers_(options.sync.servers),
      fp32_sums_(options.reduce_dtype == DType::kFloat32) {
  if (options.shards == Cut::kWeighted) {
    weights_ = options.shard_weights;
    if (weights_.empty()) weights_.assign(static_cast<std::size_t>(servers_), 1.0);
  }
  for (const Unit& unit : units_) {
    for (int server = 0; server < servers_; ++server) {
      const std::vector<PushedStretch> all = stretches(unit, server);
      Part& part = parts_.emplace_back();
      part.numel = numel_of(all);
      part.shard_numel = shard_of(cut_[static_cast<std::size_t>(unit.index)], server, servers_).numel;
      if (all.size() == 1) part.together = all.front().whole;
    }
  }
}

std::vector<PushedStretch> PushLayout::stretches(const Unit& unit, int server) const {
  return pushed_stretches(unit, cut_[static_cast<std::size_t>(unit.index)], server, servers_);
}

std::int64_t PushLayout::push_bytes() const {
  std::int64_t bytes = 0;
  for (const Unit& unit : units_)
    for (int server = 0; unit.trainable && server < servers_; ++server) bytes += gradient_bytes(unit, server);
  return bytes;
}

std::int64_t PushLayout::block_bytes(int server) const {
  std::int64_t largest = 0;
  for (const Unit& unit : units_) {
    if (part(unit, server).together) continue;
    largest = std::max(largest, weight_bytes(unit, server));
    if (unit.trainable) largest = std::max(largest, gradient_bytes(unit, server));
  }
  return largest;
}

}  // namespace zero
