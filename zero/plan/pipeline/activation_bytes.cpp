#include "zero/plan/pipeline/activation_bytes.h"

#include <algorithm>
#include <map>
#include <set>

#include "zero/base/error/check.h"

namespace zero {
namespace {

using Range = std::pair<int, int>;  // operators [first, second)

// Numbers of memories: those of values, then those of constants.
class Memories {
 public:
  explicit Memories(const ForwardGraph& graph) : graph_(graph), made_by_(graph.values.size(), -1) {
    for (std::size_t op = graph.operators.size(); op-- > 0;)
      for (const int value : graph.operators[op].outputs)
        made_by_[static_cast<std::size_t>(of_value(value))] = static_cast<int>(op);
  }
  int of_value(int value) const {
    while (graph_.values[static_cast<std::size_t>(value)].memory_of >= 0)
      value = graph_.values[static_cast<std::size_t>(value)].memory_of;
    return value;
  }
  int of_constant(int constant) const { return static_cast<int>(graph_.values.size()) + constant; }
  std::int64_t bytes(int memory) const {
    const auto at = static_cast<std::size_t>(memory), values = graph_.values.size();
    return at < values ? graph_.values[at].bytes : graph_.constants[at - values].bytes;
  }
  int made_by(int memory) const {
    const auto at = static_cast<std::size_t>(memory), values = graph_.values.size();
    return at < values ? made_by_[at] : graph_.constants[at - values].made_by;
  }

 private:
  const ForwardGraph& graph_;
  std::vector<int> made_by_;  // by value
};

// The operators of one section, and how its passes treat them.
class SectionGraph {
 public:
  SectionGraph(const ForwardGraph& graph, const Sections& sections, const Memories& memories, int section, bool split)
      : graph_(graph), memories_(memories), sections_(sections), section_(section), split_(split) {
    uses_.assign(graph.params.size(), 0);
    for (int number = 0; number < size(); ++number)
      if (is_here(number))
        for (const int param : op(number).params) ++uses_[static_cast<std::size_t>(param)];
    find_live();
  }

  const ForwardGraph& graph() const { return graph_; }
  const Memories& memories() const { return memories_; }
  int size() const { return static_cast<int>(graph_.operators.size()); }
  const GraphOperator& op(int number) const { return graph_.operators[static_cast<std::size_t>(number)]; }
  bool is_here(int number) const { return sections_.of_operator[static_cast<std::size_t>(number)] == section_; }
  bool is_live(int number) const { return live_[static_cast<std::size_t>(number)]; }
  bool makes(int value) const {
    const int maker = value < 0 ? -1 : memories_.made_by(memories_.of_value(value));
    return maker >= 0 && is_here(maker);
  }
  bool takes(const Crossing& crossing) const { return std::ranges::find(crossing.to, section_) != crossing.to.end(); }

  // The product of an operator, if a pass of weights makes its gradient.
  std::optional<WaitingProduct> postponed(int number) const {
    const std::optional<WaitingProduct>& product = op(number).product;
    if (!split_ || !product || !is_own(product->param)) return std::nullopt;
    const auto has_others = [this](int param) { return uses_[static_cast<std::size_t>(param)] > 1; };
    return std::ranges::any_of(op(number).params, has_others) ? std::nullopt : product;
  }
  // Parameters of an operator whose gradients a pass of inputs makes.
  std::vector<int> early_params(int number) const {
    const std::optional<WaitingProduct> product = postponed(number);
    std::vector<int> params;
    for (const int param : op(number).params)
      if (split_ && is_own(param) && !(product && product->param == param)) params.push_back(param);
    return params;
  }

  // The largest activation checkpoint of this section that begins at an operator, and is smaller than `within`.
  std::optional<Range> part_at(int number, const Range& within) const {
    std::optional<Range> largest;
    for (const Range& part : graph_.kept_together) {
      if (part.first != number || part.second > within.second || part == within) continue;
      if (largest && part.second <= largest->second) continue;
      for (int inside = part.first; inside < part.second; ++inside)
        if (is_live(inside)) largest = part;
    }
    return largest;
  }

  // Memories that a checkpoint reads, and that are older.
  std::set<int> inputs_of(const Range& part) const {
    std::set<int> inputs;
    const auto add = [&](int memory) {
      if (memories_.made_by(memory) < part.first) inputs.insert(memory);
    };
    for (int number = part.first; number < part.second; ++number) {
      for (const int value : op(number).inputs) add(memories_.of_value(value));
      for (const int constant : op(number).constants) add(memories_.of_constant(constant));
    }
    return inputs;
  }

  // Memories with a gradient that a checkpoint makes, and that other operators read.
  std::set<int> outputs_of(const Range& part) const {
    std::set<int> outputs;
    const auto add = [&](int value) {
      const int memory = memories_.of_value(value), maker = memories_.made_by(memory);
      const bool differentiable = graph_.values[static_cast<std::size_t>(value)].differentiable;
      if (maker >= part.first && maker < part.second && differentiable) outputs.insert(memory);
    };
    for (int number = part.second; number < size(); ++number) std::ranges::for_each(op(number).inputs, add);
    if (graph_.loss >= 0) add(graph_.loss);
    return outputs;
  }

 private:
  bool is_own(int param) const { return sections_.home_of_param[static_cast<std::size_t>(param)] == section_; }

  // An operator is live if a gradient reaches it. Autograd frees all others within the forward pass.
  void find_live() {
    live_.assign(graph_.operators.size(), false);
    std::vector<bool> needed(graph_.values.size(), false);
    const auto need = [&](int value) { needed[static_cast<std::size_t>(value)] = true; };
    const auto has_gradient = [&](int value) {
      return needed[static_cast<std::size_t>(value)] && graph_.values[static_cast<std::size_t>(value)].differentiable;
    };
    for (const Crossing& crossing : sections_.crossings)
      if (crossing.from == section_) need(crossing.value);
    if (makes(graph_.loss)) need(graph_.loss);
    for (int number = size() - 1; number >= 0; --number) {
      if (!is_here(number) || std::ranges::none_of(op(number).outputs, has_gradient)) continue;
      live_[static_cast<std::size_t>(number)] = true;
      std::ranges::for_each(op(number).inputs, need);
    }
  }

  const ForwardGraph& graph_;
  const Memories& memories_;
  const Sections& sections_;
  const int section_;
  const bool split_;
  std::vector<int> uses_;  // by parameter: operators of this section
  std::vector<bool> live_;
};

// Holds and frees memory as the passes of one micro-batch do.
class MicroBatch {
 public:
  // `older`: memories that an earlier section of the rank holds.
  MicroBatch(const SectionGraph& graph, const std::set<int>& older) : graph_(graph), older_(older) {}

  HeldActivations run(const std::set<int>& crossing) {
    const Range all{0, graph_.size()};
    HeldActivations held;
    for (const int memory : crossing) hold(memory);
    forward(all);
    held.kept = most_ = now_;
    backward(all);
    held.repeated = most_ - held.kept;
    for (const int memory : crossing) drop(memory);
    held.waiting = most_ = now_;
    weights();
    held.gradients = most_ - held.waiting;
    ZERO_CHECK(now_ == 0, "{} bytes of a micro-batch are held after its passes", now_);
    return held;
  }

 private:
  // A memory, and how many of the second runs that are open made it.
  using Key = std::pair<int, int>;
  struct Postponed {
    int param = -1;
    Key input;
    std::int64_t gradient = 0;  // bytes
  };

  Key key_of(int memory) const {
    const int maker = graph_.memories().made_by(memory);
    const auto inside = [maker](const Range& part) { return maker >= part.first && maker < part.second; };
    return {memory, static_cast<int>(std::ranges::count_if(open_, inside))};
  }
  std::int64_t bytes(const Key& key) const {
    return key.second == 0 && older_.contains(key.first) ? 0 : graph_.memories().bytes(key.first);
  }
  void grow(std::int64_t bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  void hold(const Key& key) {
    if (holders_[key]++ == 0) grow(bytes(key));
  }
  void drop(const Key& key) {
    if (--holders_.at(key) == 0) now_ -= bytes(key);
  }
  void hold(int memory) { hold(key_of(memory)); }
  void drop(int memory) { drop(key_of(memory)); }

  std::set<int> saved_by(int number) const {
    std::set<int> memories;
    for (const int value : graph_.op(number).saved) memories.insert(graph_.memories().of_value(value));
    for (const int constant : graph_.op(number).saved_constants)
      memories.insert(graph_.memories().of_constant(constant));
    return memories;
  }

  void forward(const Range& range) {
    for (int number = range.first; number < range.second; ++number) {
      if (const auto part = graph_.part_at(number, range)) {
        for (const int memory : graph_.inputs_of(*part)) hold(memory);
        number = part->second - 1;
      } else if (graph_.is_live(number)) {
        for (const int memory : saved_by(number)) hold(memory);
        grow(graph_.op(number).own_bytes);
        if (const auto product = graph_.postponed(number)) {
          const Key input = key_of(graph_.memories().of_value(product->input));
          hold(input);
          products_.push_back({product->param, input, 0});
        }
      }
    }
  }

  void backward(const Range& range) {
    std::vector<int> begins;  // of operators and parts
    for (int number = range.first; number < range.second; ++number) {
      begins.push_back(number);
      if (const auto part = graph_.part_at(number, range)) number = part->second - 1;
    }
    for (auto number = begins.rbegin(); number != begins.rend(); ++number) {
      if (const auto part = graph_.part_at(*number, range)) {
        run_again(*part);
      } else if (graph_.is_live(*number)) {
        for (const int memory : saved_by(*number)) drop(memory);
        now_ -= graph_.op(*number).own_bytes;
        make_gradients(*number);
      }
    }
  }

  void run_again(const Range& part) {
    open_.push_back(part);
    for (const int memory : graph_.outputs_of(part)) hold(memory);
    forward(part);
    backward(part);
    for (const int memory : graph_.outputs_of(part)) drop(memory);
    open_.pop_back();
    for (const int memory : graph_.inputs_of(part)) drop(memory);
  }

  void make_gradients(int number) {
    if (const auto product = graph_.postponed(number)) {
      const auto postponed = std::ranges::find(products_, product->param, &Postponed::param);
      const int result = graph_.op(number).outputs.front();
      postponed->gradient = graph_.graph().values[static_cast<std::size_t>(result)].bytes;
      grow(postponed->gradient);
    }
    for (const int param : graph_.early_params(number))
      if (made_.insert(param).second) grow(gradient_bytes(param));
  }

  // The pass of weights frees a product's input and gradient after it made the matrix's gradient.
  void weights() {
    std::int64_t made = 0;
    for (const int param : made_) made += gradient_bytes(param);
    for (auto product = products_.rbegin(); product != products_.rend(); ++product) {
      grow(gradient_bytes(product->param));
      made += gradient_bytes(product->param);
      now_ -= product->gradient;
      drop(product->input);
    }
    now_ -= made;
  }

  std::int64_t gradient_bytes(int param) const {
    const auto at = static_cast<std::size_t>(param);
    return at < graph_.graph().param_bytes.size() ? graph_.graph().param_bytes[at] : 0;
  }

  const SectionGraph& graph_;
  const std::set<int>& older_;
  std::map<Key, int> holders_;
  std::vector<Range> open_;          // activation checkpoints in their second runs
  std::vector<Postponed> products_;  // in the order in which they ran
  std::set<int> made_;               // parameters whose gradients wait
  std::int64_t now_ = 0, most_ = 0;
};

// The messages of a section's passes, and the gradients that leave it with its backward pass.
void describe_messages(const ForwardGraph& graph, const Sections& sections, const std::vector<int>& rank_of_section,
                       int section, HeldActivations& held) {
  const auto rank_of = [&](int other) { return rank_of_section[static_cast<std::size_t>(other)]; };
  const int rank = rank_of(section);
  std::set<int> values_from, gradients_from;
  for (const Crossing& crossing : sections.crossings) {
    const GraphValue& value = graph.values[static_cast<std::size_t>(crossing.value)];
    const auto at = std::ranges::find(crossing.to, section);
    const auto after = std::ranges::upper_bound(crossing.to, section);
    const bool is_user = at != crossing.to.end(), is_maker = crossing.from == section;
    if (is_user && rank_of(crossing.from) != rank) values_from.insert(crossing.from);
    if (!value.differentiable) continue;
    if ((is_user || is_maker) && after != crossing.to.end() && rank_of(*after) != rank) gradients_from.insert(*after);
    if (!is_user) continue;
    const int before = at == crossing.to.begin() ? crossing.from : *(at - 1);
    if (rank_of(before) == rank) {
      held.given.push_back({.bytes = value.bytes, .section = before});
    } else {
      held.sent.push_back({.bytes = value.bytes, .section = before});
    }
  }
  held.values_from.assign(values_from.begin(), values_from.end());
  held.gradients_from.assign(gradients_from.begin(), gradients_from.end());
}

// Gradients of shared parameters wait for the section of lookups.
void count_shared(const ForwardGraph& graph, const Sections& sections, bool split, HeldActivations& held) {
  std::set<int> shared;
  for (std::size_t op = 0; op < graph.operators.size(); ++op)
    if (sections.of_operator[op] == sections.home_of_lookup)
      for (const int param : graph.operators[op].params)
        if (sections.home_of_param[static_cast<std::size_t>(param)] == 0) shared.insert(param);
  std::int64_t bytes = 0;
  for (const int param : shared)
    if (static_cast<std::size_t>(param) < graph.param_bytes.size())
      bytes += graph.param_bytes[static_cast<std::size_t>(param)];
  if (bytes > 0) held.given.push_back({.bytes = bytes, .section = 0, .until_weights = split});
}

}  // namespace

std::vector<HeldActivations> activation_bytes(const ForwardGraph& graph, const Sections& sections,
                                              const std::vector<int>& rank_of_section, bool split) {
  const Memories memories(graph);
  std::map<int, std::set<int>> held_by_rank;  // crossing values
  std::vector<HeldActivations> all;
  for (int section = 0; section < sections.count; ++section) {
    const SectionGraph mine(graph, sections, memories, section, split);
    std::set<int> crossing;
    for (const Crossing& each : sections.crossings)
      if (each.from == section || mine.takes(each)) crossing.insert(memories.of_value(each.value));
    if (mine.makes(graph.loss)) crossing.insert(memories.of_value(graph.loss));
    std::set<int>& older = held_by_rank[rank_of_section[static_cast<std::size_t>(section)]];
    HeldActivations held = MicroBatch(mine, older).run(crossing);
    describe_messages(graph, sections, rank_of_section, section, held);
    if (sections.has_lookup && section == sections.home_of_lookup) count_shared(graph, sections, split, held);
    older.insert(crossing.begin(), crossing.end());
    all.push_back(std::move(held));
  }
  return all;
}

std::vector<bool> postponed_products(const ForwardGraph& graph, const Sections& sections) {
  const Memories memories(graph);
  std::vector<bool> postponed(graph.operators.size(), false);
  for (int section = 0; section < sections.count; ++section) {
    const SectionGraph mine(graph, sections, memories, section, /*split=*/true);
    for (int number = 0; number < mine.size(); ++number)
      if (mine.is_here(number) && mine.postponed(number)) postponed[static_cast<std::size_t>(number)] = true;
  }
  return postponed;
}

}  // namespace zero
