#include "zero/plan/pipeline/pipeline_time.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

// Checks that each section has its passes for each micro-batch once, and that micro-batches ascend.
void check_whole(const PipelinePlan& plan) {
  ZERO_CHECK(static_cast<int>(plan.passes.size()) == plan.ranks, "{} ranks, passes of {}", plan.ranks,
             plan.passes.size());
  std::map<std::pair<int, PassKind>, int> next;  // by section and kind: micro-batch of the next pass
  for (int rank = 0; rank < plan.ranks; ++rank) {
    for (const Pass& pass : plan.passes[static_cast<std::size_t>(rank)]) {
      ZERO_CHECK(plan.rank_of_section.at(static_cast<std::size_t>(pass.section)) == rank, "rank {} runs a {}", rank,
                 text_of(pass));
      int& expected = next[std::pair(pass.section, pass.kind)];
      ZERO_CHECK(pass.micro == expected, "micro-batch {} is next, not the {}", expected, text_of(pass));
      ++expected;
    }
  }
  for (int section = 0; section < plan.num_sections(); ++section) {
    const auto count = [&](PassKind kind) { return next[std::pair(section, kind)]; };
    const bool whole = count(PassKind::kForward) == plan.micros &&
                       count(PassKind::kBackward) + count(PassKind::kInputs) == plan.micros &&
                       count(PassKind::kInputs) == count(PassKind::kWeights);
    ZERO_CHECK(whole, "section {} has {} forward passes, {} + {} backward passes and {} passes of weights", section,
               count(PassKind::kForward), count(PassKind::kBackward), count(PassKind::kInputs),
               count(PassKind::kWeights));
  }
}

class Simulation {
 public:
  Simulation(const PipelinePlan& plan, const PassCosts& costs, const PipelineLinks& links)
      : plan_(plan),
        costs_(costs),
        links_(links),
        next_(plan.passes.size(), 0),
        open_(plan.passes.size(), 0),
        held_(plan.passes.size(), 0),
        sent_(plan.passes.size()),
        arrived_(static_cast<std::size_t>(plan.num_sections()),
                 std::vector<Arrived>(static_cast<std::size_t>(plan.micros))) {
    time_.ranks.resize(plan.passes.size());
    for (Arrived& first : arrived_.front()) first.input = 0;
    for (Arrived& last : arrived_.back()) last.gradient = 0;
    for (const std::vector<Pass>& passes : plan.passes)
      for (int number = 0; const Pass& pass : passes) {
        if (pass.kind != PassKind::kWeights)
          number_of_[{pass.section, pass.micro, pass.kind == PassKind::kForward}] = number;
        ++number;
      }
  }

  PipelineTime run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank)
        while (run_next(rank)) progress = true;
    }
    refuse_deadlock();
    double begin = time_.ranks.front().start, busiest = 0;
    for (const RankTime& rank : time_.ranks) {
      begin = std::min(begin, rank.start);
      busiest = std::max(busiest, rank.busy);
      time_.seconds = std::max(time_.seconds, rank.end);
    }
    time_.seconds -= begin;
    time_.bubble = time_.seconds - busiest;
    return std::move(time_);
  }

 private:
  // The times at which the needs of a section and a micro-batch are there.
  struct Arrived {
    std::optional<double> input, gradient, own;  // own: activations of its forward pass
    std::optional<double> inputs_done;
  };

  // A gradient that its rank holds until the reader answers.
  struct Sent {
    std::int64_t bytes = 0;
    int reader = 0;   // rank
    int read_in = 0;  // number of the reader's pass
  };

  std::optional<double> ready(const Pass& pass) const {
    const Arrived& arrived = at(pass.section, pass.micro);
    if (pass.kind == PassKind::kForward) return arrived.input;
    if (pass.kind == PassKind::kWeights) return arrived.inputs_done;
    if (!arrived.gradient || !arrived.own) return std::nullopt;
    return std::max(*arrived.gradient, *arrived.own);
  }

  double cost(const Pass& pass) const {
    const SectionCosts& section = costs_.at(static_cast<std::size_t>(pass.section));
    switch (pass.kind) {
      case PassKind::kForward:
        return section.forward;
      case PassKind::kBackward:
        return section.inputs + section.weights;
      case PassKind::kInputs:
        return section.inputs;
      case PassKind::kWeights:
        break;
    }
    return section.weights;
  }

  bool run_next(std::size_t rank) {
    if (next_[rank] == plan_.passes[rank].size()) return false;
    const Pass& pass = plan_.passes[rank][next_[rank]];
    const std::optional<double> can_begin = ready(pass);
    if (!can_begin) return false;
    RankTime& time = time_.ranks[rank];
    const double start = std::max(time.end, *can_begin);
    if (next_[rank]++ == 0) time.start = start;
    time.end = start + cost(pass);
    time.busy += cost(pass);
    finish(pass, time.end);
    hold(rank, pass);
    return true;
  }

  void finish(const Pass& pass, double end) {
    Arrived& arrived = at(pass.section, pass.micro);
    if (pass.kind == PassKind::kForward) {
      arrived.own = end;
      if (pass.section + 1 < plan_.num_sections())
        at(pass.section + 1, pass.micro).input = deliver(pass.section, pass.section + 1, end);
    } else if (pass.kind != PassKind::kWeights) {
      arrived.inputs_done = end;
      if (pass.section > 0) at(pass.section - 1, pass.micro).gradient = deliver(pass.section, pass.section - 1, end);
    }
  }

  double deliver(int from, int to, double made) {
    const int sender = plan_.rank_of_section[static_cast<std::size_t>(from)];
    const int receiver = plan_.rank_of_section[static_cast<std::size_t>(to)];
    if (sender == receiver) return made;
    const std::vector<double>& of_section = to > from ? links_.forward : links_.backward;
    const double seconds = of_section.empty() ? 0 : of_section.at(static_cast<std::size_t>(from));
    double& free_at = link_free_[{sender, receiver}];
    free_at = std::max(free_at, made) + seconds;
    return free_at + links_.latency;
  }

  void hold(std::size_t rank, const Pass& pass) {
    RankTime& time = time_.ranks[rank];
    const HeldActivations& own = costs_.at(static_cast<std::size_t>(pass.section)).held;
    std::int64_t& held = held_[rank];
    const auto note = [&](std::int64_t more) { time.activation_bytes = std::max(time.activation_bytes, held + more); };
    receive(rank, pass);
    switch (pass.kind) {
      case PassKind::kForward:
        held += own.kept;
        ++open_[rank];
        break;
      case PassKind::kBackward:
      case PassKind::kInputs:
        note(own.repeated);
        held -= own.kept + taken(pass.section, /*by_weights=*/false);
        for (const HeldActivations::Given& given : own.given) held += given.bytes;
        for (const HeldActivations::Sent& sent : own.sent) send(rank, pass, sent);
        if (pass.kind == PassKind::kInputs) {
          held += own.waiting;
        } else {
          held -= taken(pass.section, /*by_weights=*/true);
          --open_[rank];
        }
        break;
      case PassKind::kWeights:
        note(own.gradients);
        held -= own.waiting + taken(pass.section, /*by_weights=*/true);
        --open_[rank];
    }
    note(0);
    time.in_flight = std::max(time.in_flight, open_[rank]);
  }

  void send(std::size_t rank, const Pass& pass, const HeldActivations::Sent& sent) {
    held_[rank] += sent.bytes;
    const int reader = plan_.rank_of_section[static_cast<std::size_t>(sent.section)];
    sent_[rank].push_back({sent.bytes, reader, number_of_.at({sent.section, pass.micro, /*is_forward=*/false})});
  }

  // Receives the messages of a pass. They answer what their senders have read before.
  void receive(std::size_t rank, const Pass& pass) {
    if (pass.kind == PassKind::kWeights) return;
    const bool is_forward = pass.kind == PassKind::kForward;
    const HeldActivations& own = costs_.at(static_cast<std::size_t>(pass.section)).held;
    for (const int section : is_forward ? own.values_from : own.gradients_from) {
      const int sender = plan_.rank_of_section[static_cast<std::size_t>(section)];
      const int sent_in = number_of_.at({section, pass.micro, is_forward});
      std::erase_if(sent_[rank], [&](const Sent& sent) {
        const bool is_read = sent.reader == sender && sent.read_in <= sent_in;
        if (is_read) held_[rank] -= sent.bytes;
        return is_read;
      });
    }
  }

  // Bytes of one micro-batch that later sections gave to a section.
  std::int64_t taken(int section, bool by_weights) const {
    std::int64_t bytes = 0;
    for (const SectionCosts& costs : costs_)
      for (const HeldActivations::Given& given : costs.held.given)
        if (given.section == section && given.until_weights == by_weights) bytes += given.bytes;
    return bytes;
  }

  // Goes from a waiting pass to the pass that it waits for, on another rank, until two ranks wait for each other.
  void refuse_deadlock() const {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] == plan_.passes[rank].size()) continue;
      const Pass& pass = plan_.passes[rank][next_[rank]];
      const bool forward = pass.kind == PassKind::kForward;
      const bool own = !forward && (pass.kind == PassKind::kWeights || !at(pass.section, pass.micro).own);
      const int needed = own ? pass.section : pass.section + (forward ? -1 : 1);
      const int other = plan_.rank_of_section[static_cast<std::size_t>(needed)];
      const auto at_other = static_cast<std::size_t>(other);
      if (next_[at_other] == plan_.passes[at_other].size()) continue;
      const Pass& theirs = plan_.passes[at_other][next_[at_other]];
      throw ConfigError("parallel.schedule", fmt::format("{} ranks", plan_.ranks),
                        fmt::format("ranks wait for each other: rank {} is at the {}, rank {} at the {}", rank,
                                    text_of(pass), other, text_of(theirs)),
                        "use an order that build_pipeline() makes");
    }
  }

  Arrived& at(int section, int micro) {
    return arrived_[static_cast<std::size_t>(section)][static_cast<std::size_t>(micro)];
  }
  const Arrived& at(int section, int micro) const {
    return arrived_[static_cast<std::size_t>(section)][static_cast<std::size_t>(micro)];
  }

  const PipelinePlan& plan_;
  const PassCosts& costs_;
  const PipelineLinks& links_;
  PipelineTime time_;
  std::vector<std::size_t> next_;        // by rank: number of its next pass
  std::vector<int> open_;                // by rank: micro-batches of sections whose activations it holds
  std::vector<std::int64_t> held_;       // by rank: bytes of them
  std::vector<std::vector<Sent>> sent_;  // by rank
  std::map<std::tuple<int, int, bool>, int> number_of_;  // by section, micro-batch and whether it is a forward pass
  std::vector<std::vector<Arrived>> arrived_;            // by section and micro-batch
  std::map<std::pair<int, int>, double> link_free_;
};

}  // namespace

PassCosts costs_of(const SectionCosts& each, int sections) {
  return PassCosts(static_cast<std::size_t>(sections), each);
}

PipelineLinks links_of(double forward, double backward, int sections) {
  const auto count = static_cast<std::size_t>(sections);
  return {std::vector<double>(count, forward), std::vector<double>(count, backward)};
}

PipelineTime simulate(const PipelinePlan& plan, const PassCosts& costs, const PipelineLinks& links) {
  check_whole(plan);
  ZERO_CHECK(costs.size() == plan.rank_of_section.size(), "{} sections, costs of {}", plan.num_sections(),
             costs.size());
  return Simulation(plan, costs, links).run();
}

}  // namespace zero
