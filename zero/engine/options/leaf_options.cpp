#include "zero/engine/options/leaf_options.h"

#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {

void require_leaves(const AttachOptions& options) {
  if (options.leaves == 0) return;
  const auto refuse_if = [&](bool broken, std::string_view reason, std::string_view remedy) {
    if (broken) throw ConfigError("train.leaves", fmt::format("{}", options.leaves), reason, remedy);
  };
  refuse_if(options.sync.has_servers(), "workers send their gradients to servers, which add them in another order",
            "leave it out, or use no servers (sync.servers)");
  refuse_if(options.sync.mode != SyncMode::kSync || options.local.has_value(),
            "ranks that do not update together have no common step (sync.mode)", "leave it out, or use sync.mode sync");
  refuse_if(options.delayed_update, "gradients would be a step late (zero.delayed_update)",
            "leave it out, or set zero.delayed_update = false");
  refuse_if(options.group != 0, "copies of the model add their gradients one after the other (zero.group)",
            "leave it out, or set zero.group = 0");
  const WireCodecs& wire = options.wire;
  refuse_if(wire.gather != WireCodec::kNone || wire.reduce != WireCodec::kNone || wire.outer != WireCodec::kNone ||
                wire.outer_topk > 0,
            "codecs round blocks of a rank's shard, and shards depend on the number of ranks (comm.gather_wire, "
            "comm.reduce_wire, comm.outer_wire)",
            "leave it out, or send without codecs");
  refuse_if(options.sums == RankSums::kLinked, "NCCL adds in an order of its own (zero.reduce = \"nccl\")",
            "leave it out, or set zero.reduce = \"ordered\"");
}

AttachOptions settle_leaves(AttachOptions options, int world) {
  if (options.leaves == 0) return options;
  require_leaves(options);
  const Leaves leaves(options.leaves, world, options.reduce);
  if (options.accumulate != 1 && options.accumulate != leaves.passes())
    throw ConfigError("train.leaves", fmt::format("{}", options.leaves),
                      fmt::format("{} ranks compute it in {} micro-batches, and train.accumulate is {}", world,
                                  leaves.passes(), options.accumulate),
                      fmt::format("leave train.accumulate out, or set it to {}", leaves.passes()));
  options.accumulate = leaves.passes();
  options.reduce = leaves.reduce();
  return options;
}

std::optional<Leaves> leaves_of(const AttachOptions& options, int world) {
  if (options.leaves == 0) return std::nullopt;
  return Leaves(options.leaves, world, options.reduce);
}

}  // namespace zero
