#include "app/config/bits.h"

#include <algorithm>
#include <array>

namespace zero {
namespace {

struct WhyBits {
  std::string_view begin;  // a key, or the begin of keys
  std::string_view text;
};

// Keys that decide when and where things are computed, not what. The budgets of tiers are others.
constexpr auto kKeepBits = std::to_array<std::string_view>({"train.offload_activations",
                                                            "train.checkpoint_activations",
                                                            "train.log_every",
                                                            "train.sample",
                                                            "zero.stage",
                                                            "zero.secondary_group",
                                                            "zero.shards",
                                                            "zero.shard_weights",
                                                            "zero.disk",
                                                            "zero.checksums",
                                                            "zero.monitor",
                                                            "zero.memory_reserve",
                                                            "zero.rates",
                                                            "zero.link_bandwidth",
                                                            "zero.placement",
                                                            "zero.parameter",
                                                            "zero.gradient",
                                                            "zero.optimizer",
                                                            "parallel.pipeline",
                                                            "parallel.sections",
                                                            "parallel.schedule",
                                                            "parallel.depth",
                                                            "parallel.cut",
                                                            "parallel.activation_memory",
                                                            "comm.transport",
                                                            "comm.timeout",
                                                            "run.dir",
                                                            "run.timeline",
                                                            "run.timeline_steps",
                                                            "run.tensorboard",
                                                            "run.max_restarts"});

// The first reason whose begin fits counts.
constexpr std::array kWhyBits{
    WhyBits{"train.batch", "sums over samples have other terms"},
    WhyBits{"train.accumulate", "sums over samples have other terms"},
    WhyBits{"train.reduce", "gradients are added in another order"},
    WhyBits{"train.share", "a rank sums other samples"},
    WhyBits{"train.steps", "the last step has another evaluation, and most schedules have other rates"},
    WhyBits{"train.eval_", "evaluations would differ from the recorded ones"},
    WhyBits{"train.patience", "the run would end after another step"},
    WhyBits{"run.threads", "libtorch adds in another order"},
    WhyBits{"run.device", "another device adds in another order"},
    WhyBits{"run.deterministic", "libtorch takes other operators"},
    WhyBits{"run.min_ranks", "a run that continues with fewer ranks has other bits"},
    WhyBits{"comm.", "elements are rounded when they are sent"},
    WhyBits{"checkpoint.", "the steps that are saved are those of the run"},
    WhyBits{"health.", "another step would be left out"},
    WhyBits{"zero.group", "with codecs, or with copies that train apart, the groups decide the bits"},
    WhyBits{"zero.reduce", "NCCL adds in its own order"},
    WhyBits{"zero.delayed_update", "gradients are applied in another step"},
    WhyBits{"data.", "other samples are learned"},
    WhyBits{"model.", "it is another model"},
};

bool has_codecs(const Config& config) {
  return config.engine.wire != WireCodecs() || config.comm.topk;
}

// NCCL's order depends on the stage, and on the parts that it is given.
bool sums_by_nccl(const Config& config) {
  return config.engine.sums == RankSums::kLinked;
}

}  // namespace

std::string_view why_bits_change(std::string_view key, const Config& config) {
  // With leaves ranks and micro-batches only decide who computes which part of one tree.
  const bool of_ranks = key == "train.accumulate" || key == "train.reduce" || key == "run.min_ranks";
  if (of_ranks && config.train.leaves > 0) return "";
  if (key.starts_with("zero.shard") && has_codecs(config)) return "codecs round blocks of a shard";
  if (key == "zero.group" && !config.local.on && !has_codecs(config)) return "";
  if (sums_by_nccl(config) && (key.starts_with("zero.") || key.starts_with("parallel.")))
    return "with zero.reduce = \"nccl\" the stage and the placement decide the order of sums";
  if (std::ranges::find(kKeepBits, key) != kKeepBits.end() || find_tier_of_budget(key) != nullptr) return "";
  for (const WhyBits& reason : kWhyBits)
    if (key.starts_with(reason.begin)) return reason.text;
  return "it decides the training";
}

std::string_view why_bits_change_with_ranks(const Config& config) {
  return config.train.leaves > 0 ? "" : "sums over ranks have other terms";
}

std::int64_t ranks_of_fitted(const Config& config) {
  const std::int64_t of_a_rank = config.train.batch * config.train.accumulate;
  if (of_a_rank <= 0 || config.train.global_batch % of_a_rank != 0) return 0;
  return config.train.global_batch / of_a_rank * config.parallel.pipeline;
}

}  // namespace zero
