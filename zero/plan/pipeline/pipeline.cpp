#include "zero/plan/pipeline/pipeline.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"

namespace zero {
namespace {

// The passes of one rank, in the order in which they are added.
class PassList {
 public:
  void forward(int micro, int section) { passes_.push_back({PassKind::kForward, micro, section}); }
  void backward(int micro, int section) { passes_.push_back({PassKind::kBackward, micro, section}); }
  void inputs(int micro, int section) { passes_.push_back({PassKind::kInputs, micro, section}); }
  void weights(int micro, int section) { passes_.push_back({PassKind::kWeights, micro, section}); }
  // Drops the passes of micro-batches that do not exist.
  std::vector<Pass> take(int micros) {
    std::erase_if(passes_, [micros](const Pass& pass) { return pass.micro >= micros; });
    return std::move(passes_);
  }

 private:
  std::vector<Pass> passes_;
};

std::vector<Pass> gpipe(int section, int micros) {
  PassList list;
  for (int micro = 0; micro < micros; ++micro) list.forward(micro, section);
  for (int micro = 0; micro < micros; ++micro) list.backward(micro, section);
  return list.take(micros);
}

std::vector<Pass> one_forward_one_backward(int rank, int ranks, int micros, int depth) {
  PassList list;
  const int ahead = (1 + depth) * (ranks - 1 - rank);
  for (int micro = 0; micro < ahead; ++micro) list.forward(micro, rank);
  for (int micro = 0; micro < micros; ++micro) {
    list.forward(micro + ahead, rank);
    list.backward(micro, rank);
  }
  return list.take(micros);
}

// A rank runs a group of `ranks` micro-batches through its first section, then the same group through its second
// section, and so on. Then the next group follows.
std::vector<Pass> interleaved(int rank, int ranks, int per_rank, int micros) {
  const int total = micros * per_rank;
  const auto micro_of = [&](int number) { return number / (ranks * per_rank) * ranks + number % ranks; };
  const auto turn_of = [&](int number) { return number / ranks % per_rank; };
  PassList list;
  const auto forward = [&](int number) { list.forward(micro_of(number), turn_of(number) * ranks + rank); };
  const auto backward = [&](int number) {
    list.backward(micro_of(number), (per_rank - 1 - turn_of(number)) * ranks + rank);
  };
  const int ahead = std::min(total, 2 * (ranks - 1 - rank) + (per_rank - 1) * ranks);
  for (int number = 0; number < ahead; ++number) forward(number);
  for (int number = ahead; number < total; ++number) {
    forward(number);
    backward(number - ahead);
  }
  for (int number = total - ahead; number < total; ++number) backward(number);
  return list.take(micros);
}

// The order of Qi and others, "Pipeline Parallelism with Controllable Memory". It assumes equal times of the three
// passes.
std::vector<Pass> zb_v(int rank, int ranks, int micros) {
  const int first = rank, last = 2 * ranks - 1 - rank;
  const int filled = std::max(2 * ranks - 1, micros);  // with fewer micro-batches the order has gaps
  int first_forward = 0, last_forward = 0, first_inputs = 0, last_inputs = 0, first_weights = 0, last_weights = 0;
  PassList list;
  const auto first_backward = [&] {
    list.inputs(first_inputs++, first);
    list.weights(first_weights++, first);
  };
  const auto last_backward = [&] {
    list.inputs(last_inputs++, last);
    list.weights(last_weights++, last);
  };
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) list.forward(first_forward++, first);
  for (int i = 0; i < rank; ++i) {
    list.forward(last_forward++, last);
    list.forward(first_forward++, first);
  }
  for (int i = 0; i < ranks - rank; ++i) {
    list.forward(last_forward++, last);
    last_backward();
  }
  while (last_forward < first_forward || first_forward < filled) {
    if (first_forward < filled) list.forward(first_forward++, first);
    first_backward();
    list.forward(last_forward++, last);
    last_backward();
  }
  for (int i = 0; i < rank; ++i) {
    list.inputs(first_inputs++, first);
    list.inputs(last_inputs++, last);
  }
  for (int i = 0; i < ranks - rank; ++i) first_backward();
  while (last_weights < last_inputs) list.weights(last_weights++, last);
  while (first_weights < first_inputs) list.weights(first_weights++, first);
  return list.take(micros);
}

// The orders of Qi and others, "Zero Bubble Pipeline Parallelism". zb-h1: `turns` = 1, zb-h2: 2. For each rank after
// it, a rank runs `turns` forward passes ahead. For each rank before it, a rank delays `turns` passes of weights.
std::vector<Pass> zero_bubble(int rank, int ranks, int micros, int turns) {
  const int ahead = turns * (ranks - 1 - rank), delay = turns * rank;
  PassList list;
  for (int micro = 0; micro < ahead; ++micro) list.forward(micro, rank);
  for (int micro = 0; micro < micros; ++micro) {
    list.forward(micro + ahead, rank);
    list.inputs(micro, rank);
    if (micro >= delay) list.weights(micro - delay, rank);
  }
  for (int micro = std::max(0, micros - delay); micro < micros; ++micro) list.weights(micro, rank);
  return list.take(micros);
}

void require_sections(PassOrder order, int ranks, int sections) {
  const auto refuse = [&](std::string_view remedy) {
    throw ConfigError("parallel.sections", fmt::format("{}", sections),
                      fmt::format("parallel.schedule = {} cannot use this number on {} ranks", name_of(order), ranks),
                      remedy);
  };
  if (order == PassOrder::kZbV) {
    if (sections != 2 * ranks) refuse(fmt::format("use {}, two for each rank", 2 * ranks));
  } else if (order == PassOrder::kInterleaved) {
    if (sections < 2 * ranks || sections % ranks != 0)
      refuse(fmt::format("use a multiple of {} that is at least {}", ranks, 2 * ranks));
  } else if (sections != ranks) {
    refuse(fmt::format("use {}, one for each rank, or parallel.schedule = interleaved", ranks));
  }
}

// Throws if no order can use the numbers. The error has one line for each order.
void require_any_order(int ranks, int sections, int micros) {
  std::string reasons;
  for (const Choice<PassOrder>& order : kPassOrders) {
    if (order.value == PassOrder::kAuto) continue;
    try {
      const int count = sections > 0 ? sections : default_sections(order.value, ranks);
      return require_order(order.value, ranks, count, micros);
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      reasons += "\n  " + text.substr(0, text.find('\n'));
    }
  }
  throw ConfigError("parallel.schedule", "auto", "no order can use these numbers:" + reasons,
                    fmt::format("use parallel.sections = {}, or 0", ranks));
}

std::vector<Pass> passes_of(PassOrder order, int rank, int ranks, int sections, int micros, int depth) {
  switch (order) {
    case PassOrder::kGpipe:
      return gpipe(rank, micros);
    case PassOrder::kOneForwardOneBackward:
      return one_forward_one_backward(rank, ranks, micros, depth);
    case PassOrder::kInterleaved:
      return interleaved(rank, ranks, sections / ranks, micros);
    case PassOrder::kZbH1:
      return zero_bubble(rank, ranks, micros, 1);
    case PassOrder::kZbH2:
      return zero_bubble(rank, ranks, micros, 2);
    case PassOrder::kZbV:
      return zb_v(rank, ranks, micros);
    case PassOrder::kAuto:
      break;
  }
  ZERO_CHECK(false, "no order is chosen");
}

}  // namespace

std::string_view name_of(PassOrder order) {
  return kPassOrders[static_cast<std::size_t>(order)].word;
}

PassOrder pass_order_of(std::string_view name) {
  return value_of(kPassOrders, "parallel.schedule", name);
}

bool splits_backward(PassOrder order) {
  return order == PassOrder::kZbH1 || order == PassOrder::kZbH2 || order == PassOrder::kZbV;
}

int default_sections(PassOrder order, int ranks) {
  return order == PassOrder::kInterleaved || order == PassOrder::kZbV ? 2 * ranks : ranks;
}

std::vector<int> PipelinePlan::sections_of(int rank) const {
  std::vector<int> sections;
  for (int section = 0; section < num_sections(); ++section)
    if (rank_of_section[static_cast<std::size_t>(section)] == rank) sections.push_back(section);
  return sections;
}

void require_order(PassOrder order, int ranks, int sections, int micros, int depth) {
  if (ranks < 1)
    throw ConfigError("parallel.pipeline", fmt::format("{}", ranks), "a pipeline needs at least one rank",
                      "use the number of ranks in a line, or 1 for no pipeline");
  if (micros < 1)
    throw ConfigError("train.accumulate", fmt::format("{}", micros), "a step needs at least one micro-batch",
                      "use 1 or more");
  const auto refuse_depth = [depth](std::string_view reason, std::string_view remedy) {
    throw ConfigError("parallel.depth", fmt::format("{}", depth), reason, remedy);
  };
  require_number("parallel.depth", depth, kAtLeastZero, "use 0 or more");
  if (depth > 0 && order == PassOrder::kAuto) refuse_depth("parallel.schedule = auto chooses it", "leave it out");
  if (depth > 0 && order != PassOrder::kOneForwardOneBackward)
    refuse_depth(fmt::format("parallel.schedule = {} has no depth", name_of(order)), "use 0, or 1f1b");
  if (order == PassOrder::kAuto) return require_any_order(ranks, sections, micros);
  require_sections(order, ranks, sections);
  if (order == PassOrder::kInterleaved && micros % ranks != 0)
    throw ConfigError("train.accumulate", fmt::format("{}", micros),
                      fmt::format("parallel.schedule = interleaved needs a multiple of parallel.pipeline = {}", ranks),
                      fmt::format("use {}, or parallel.schedule = 1f1b", (micros / ranks + 1) * ranks));
}

PipelinePlan build_pipeline(PassOrder order, int ranks, int sections, int micros, int depth) {
  ZERO_CHECK(order != PassOrder::kAuto, "no order is chosen");
  require_order(order, ranks, sections, micros, depth);
  depth = std::min(depth, micros);  // more than all micro-batches cannot be ahead
  PipelinePlan plan{.ranks = ranks, .micros = micros, .depth = depth, .rank_of_section = {}, .passes = {}};
  for (int section = 0; section < sections; ++section) {
    const bool returns = order == PassOrder::kZbV && section >= ranks;
    plan.rank_of_section.push_back(returns ? 2 * ranks - 1 - section : section % ranks);
  }
  for (int rank = 0; rank < ranks; ++rank)
    plan.passes.push_back(passes_of(order, rank, ranks, sections, micros, depth));
  return plan;
}

PipelinePlan with_lookup(const PipelinePlan& plan, int rank) {
  PipelinePlan result = plan;
  result.rank_of_section.insert(result.rank_of_section.begin(), rank);
  for (std::vector<Pass>& passes : result.passes)
    for (Pass& pass : passes) ++pass.section;

  const std::vector<int> own = result.sections_of(rank);
  const int first = own.size() > 1 ? own[1] : -1;  // the rank's first section after the lookup section
  ZERO_CHECK(first > 0, "rank {} has no section", rank);
  const bool split = std::ranges::any_of(result.passes[static_cast<std::size_t>(rank)],
                                         [](const Pass& pass) { return pass.kind == PassKind::kInputs; });
  const PassKind backward = split ? PassKind::kInputs : PassKind::kBackward;
  std::vector<Pass> mixed;
  int forward_to = 0, backward_to = 0;
  const auto look_up = [&](int end) {
    for (; forward_to < std::min(end, plan.micros); ++forward_to) mixed.push_back({PassKind::kForward, forward_to, 0});
  };
  const auto come_back = [&](int end) {
    for (; backward_to < std::min(end, plan.micros); ++backward_to) {
      mixed.push_back({backward, backward_to, 0});
      if (split) mixed.push_back({PassKind::kWeights, backward_to, 0});
    }
  };
  const int ahead = (1 + plan.depth) * plan.ranks;
  look_up(ahead);
  for (const Pass& pass : result.passes[static_cast<std::size_t>(rank)]) {
    if (pass.section == first && pass.kind == PassKind::kForward) look_up(pass.micro + 1 + ahead);
    mixed.push_back(pass);
    if (pass.section == first && pass.kind == backward) come_back(pass.micro + 2 - ahead);
  }
  come_back(plan.micros);
  result.passes[static_cast<std::size_t>(rank)] = std::move(mixed);
  return result;
}

std::string text_of(const std::vector<Pass>& passes, bool with_sections) {
  std::string text;
  for (const Pass& pass : passes) {
    fmt::format_to(std::back_inserter(text), "{}{}{}", text.empty() ? "" : " ",
                   "FBIW"[static_cast<std::size_t>(pass.kind)], pass.micro);
    if (with_sections) fmt::format_to(std::back_inserter(text), ".{}", pass.section);
  }
  return text;
}

std::string text_of(const Pass& pass) {
  constexpr std::array<std::string_view, 4> kKinds{"forward pass", "backward pass", "backward pass of inputs",
                                                   "backward pass of weights"};
  return fmt::format("{} of micro-batch {} through section {}", kKinds[static_cast<std::size_t>(pass.kind)], pass.micro,
                     pass.section);
}

}  // namespace zero
