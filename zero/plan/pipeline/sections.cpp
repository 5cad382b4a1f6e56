#include "zero/plan/pipeline/sections.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr double kBalanceTolerance = 1.05;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Finds the best cuts. A cut at position n is before operator n.
class Cutter {
 public:
  Cutter(const ForwardGraph& graph, int count) : graph_(graph), count_(count), size_(graph.operators.size()) {
    keep_together();
    find_uses();
    forbid_cuts();
    measure();
  }

  std::vector<std::size_t> cuts() {
    const double best = least_longest();
    if (best == kImpossible) refuse_few();
    return fewest_bytes(best * kBalanceTolerance);
  }

  std::vector<std::size_t> cuts_before(const std::vector<std::string>& units) const {
    std::vector<std::size_t> cuts{0};
    for (const std::string& unit : units) {
      const std::size_t use = first_use(unit);
      if (has_params_[use] == 0)
        refuse_unit(unit, "the model's first unit begins section 0", "name the first units of the other sections");
      std::size_t best = 0;
      for (std::size_t cut = use; has_params_[cut] == has_params_[use]; --cut)
        if (allowed_[cut] && (best == 0 || bytes_[cut] < bytes_[best])) best = cut;
      if (best == 0)
        refuse_unit(unit, "parts before and after it share a parameter, a buffer, or a value that is written in place",
                    "cut at another unit");
      if (best <= cuts.back())
        refuse_unit(unit, "the forward pass uses it before the unit that is named before it",
                    "name units in the order of the forward pass");
      cuts.push_back(best);
    }
    cuts.push_back(size_);
    for (std::size_t section = 0; section + 1 < cuts.size(); ++section)
      if (!has_own(cuts[section], cuts[section + 1]))
        refuse_unit(units[std::max<std::size_t>(section, 1) - 1],
                    "a section beside it has no parameter of its own: later sections also use them",
                    "cut at another unit");
    return cuts;
  }

  // A result that another operator writes in place stays with that operator.
  bool is_lookup(std::size_t op) const {
    const GraphOperator& of = graph_.operators[op];
    const bool is_written = std::ranges::any_of(
        of.outputs, [&](int value) { return last_written_[static_cast<std::size_t>(value)] != op; });
    return !of.params.empty() && of.inputs.empty() && of.buffers.empty() && !kept_together_[op] && !is_written;
  }
  const std::vector<std::size_t>& uses_of(int param) const { return uses_[static_cast<std::size_t>(param)]; }

 private:
  void keep_together() {
    kept_together_.assign(size_, false);
    for (const auto* const ranges : {&graph_.kept_together, &graph_.functions})
      for (const auto& [first, end] : *ranges)
        std::fill(kept_together_.begin() + first, kept_together_.begin() + end, true);
  }

  void find_uses() {
    uses_.resize(graph_.params.size());
    uses_of_buffers_.resize(graph_.buffers.size());
    first_made_.assign(graph_.values.size(), size_);
    last_written_.assign(graph_.values.size(), 0);
    last_used_.assign(graph_.values.size(), 0);
    for (std::size_t op = 0; op < size_; ++op) {
      for (const int param : graph_.operators[op].params) uses_[static_cast<std::size_t>(param)].push_back(op);
      for (const int buffer : graph_.operators[op].buffers)
        uses_of_buffers_[static_cast<std::size_t>(buffer)].push_back(op);
      for (const int value : graph_.operators[op].inputs) last_used_[static_cast<std::size_t>(value)] = op;
      for (const int value : graph_.operators[op].outputs) {
        const auto at = static_cast<std::size_t>(value);
        first_made_[at] = std::min(first_made_[at], op);
        last_written_[at] = op;
      }
    }
  }

  // Returns the parameters of a unit: by its whole name, else by a part ("h.2" of "transformer.h.2.ln_1.weight").
  std::vector<std::size_t> params_of(const std::string& unit) const {
    const std::string name = unit.ends_with('.') ? unit : unit + ".";
    std::vector<std::size_t> whole, within;
    std::set<std::string> outer;  // names around it
    for (std::size_t param = 0; param < graph_.params.size(); ++param) {
      const std::string dotted = graph_.params[param] + ".";
      const std::size_t at = dotted.find("." + name);
      if (dotted.starts_with(name)) whole.push_back(param);
      if (at == std::string::npos) continue;
      within.push_back(param);
      outer.insert(dotted.substr(0, at + 1));
    }
    if (whole.empty() && outer.size() > 1)
      refuse_unit(unit, fmt::format("it may be {}{} or {}{}", *outer.begin(), unit, *outer.rbegin(), unit),
                  "use the whole name");
    if (whole.empty() && within.empty())
      refuse_unit(unit, "the model has no such unit and no such parameter",
                  fmt::format("use the begin of a parameter's name, such as {}", graph_.params.back()));
    return whole.empty() ? within : whole;
  }

  // Returns the first operator with a parameter of the unit.
  std::size_t first_use(const std::string& unit) const {
    std::size_t use = size_;
    for (const std::size_t param : params_of(unit))
      if (!uses_[param].empty()) use = std::min(use, uses_[param].front());
    if (use == size_) refuse_unit(unit, "the forward pass does not use it", "cut at another unit");
    return use;
  }

  [[noreturn]] static void refuse_unit(const std::string& unit, std::string_view reason, std::string_view remedy) {
    throw ConfigError("parallel.cut", unit, reason, remedy);
  }

  void forbid(std::size_t first, std::size_t last) {
    for (std::size_t cut = first + 1; cut <= last; ++cut) allowed_[cut] = false;
  }

  void forbid_cuts() {
    allowed_.assign(size_ + 1, true);
    allowed_.front() = allowed_.back() = false;
    for (std::size_t value = 0; value < graph_.values.size(); ++value)
      if (first_made_[value] < size_) forbid(first_made_[value], last_written_[value]);
    for (const std::vector<std::size_t>& uses : uses_) {
      const auto first = std::ranges::find_if(uses, [this](std::size_t op) { return !is_lookup(op); });
      if (first != uses.end()) forbid(*first, uses.back());
    }
    for (const std::vector<std::size_t>& uses : uses_of_buffers_)
      if (!uses.empty()) forbid(uses.front(), uses.back());
    for (const auto* const ranges : {&graph_.kept_together, &graph_.functions})
      for (const auto& [first, end] : *ranges)
        forbid(static_cast<std::size_t>(first), static_cast<std::size_t>(end) - 1);
    if (graph_.loss >= 0) forbid(last_written_[static_cast<std::size_t>(graph_.loss)], size_);
  }

  // The last use of an operator's parameters, if they are moved to their last use; else the operator itself. A lookup
  // with several parameters moves if one of them has a use in a later section.
  std::size_t home_of(std::size_t op) const {
    std::size_t home = op;
    if (!is_lookup(op)) return home;
    for (const int param : graph_.operators[op].params) home = std::max(home, uses_of(param).back());
    return home;
  }

  // Sums of work before each position, and bytes that cross a cut there.
  void measure() {
    work_.assign(size_ + 1, 0);
    bytes_.assign(size_ + 1, 0);
    has_params_.assign(size_ + 1, 0);
    for (std::size_t op = 0; op < size_; ++op) {
      work_[op + 1] = work_[op] + (graph_.operators[op].everywhere ? 0 : graph_.operators[op].work);
      has_params_[op + 1] = has_params_[op] + (graph_.operators[op].params.empty() ? 0 : 1);
    }
    newest_own_.assign(size_ + 1, 0);
    for (std::size_t op = 0; op < size_; ++op) {
      if (graph_.operators[op].params.empty()) continue;
      for (std::size_t cut = home_of(op) + 1; cut <= size_; ++cut)
        newest_own_[cut] = std::max(newest_own_[cut], op + 1);
    }
    for (std::size_t value = 0; value < graph_.values.size(); ++value)
      for (std::size_t cut = last_written_[value] + 1; cut <= last_used_[value]; ++cut)
        bytes_[cut] += static_cast<double>(graph_.values[value].bytes);
  }

  // True if a section between two cuts has a parameter that stays there. A lookup's parameter may move to a later one.
  bool has_own(std::size_t begin, std::size_t end) const { return newest_own_[end] > begin; }

  // Work of a section between two cuts; kImpossible if it has no parameter of its own.
  double work(std::size_t begin, std::size_t end) const {
    return has_own(begin, end) ? work_[end] - work_[begin] : kImpossible;
  }

  // Calls step(before, cut) for each pair of positions at which one section may begin and end.
  template <typename Step>
  void for_pairs(int section, Step step) const {
    for (std::size_t cut = 1; cut <= size_; ++cut) {
      if (section + 1 == count_ ? cut != size_ : !allowed_[cut]) continue;
      for (std::size_t before = 0; before < cut; ++before)
        if (section == 0 ? before == 0 : allowed_[before]) step(before, cut);
    }
  }

  double least_longest() const {
    std::vector<double> longest(size_ + 1, kImpossible);
    longest[0] = 0;
    for (int section = 0; section < count_; ++section) {
      std::vector<double> next(size_ + 1, kImpossible);
      for_pairs(section, [&](std::size_t before, std::size_t cut) {
        next[cut] = std::min(next[cut], std::max(longest[before], work(before, cut)));
      });
      longest = std::move(next);
    }
    return longest[size_];
  }

  std::vector<std::size_t> fewest_bytes(double limit) const {
    std::vector<double> fewest(size_ + 1, kImpossible);
    fewest[0] = 0;
    std::vector<std::vector<std::size_t>> from(static_cast<std::size_t>(count_), std::vector<std::size_t>(size_ + 1));
    for (int section = 0; section < count_; ++section) {
      std::vector<double> next(size_ + 1, kImpossible);
      for_pairs(section, [&](std::size_t before, std::size_t cut) {
        if (work(before, cut) > limit || fewest[before] + bytes_[cut] >= next[cut]) return;
        next[cut] = fewest[before] + bytes_[cut];
        from[static_cast<std::size_t>(section)][cut] = before;
      });
      fewest = std::move(next);
    }
    std::vector<std::size_t> cuts{size_};
    for (auto section = from.rbegin(); section != from.rend(); ++section) cuts.push_back((*section)[cuts.back()]);
    std::ranges::reverse(cuts);
    return cuts;  // count + 1 positions, from 0 to size
  }

  [[noreturn]] void refuse_few() const {
    std::size_t most = 0;
    for (std::size_t cut = 0, begin = 0; cut <= size_; ++cut) {
      if ((cut == size_ || allowed_[cut]) && has_own(begin, cut)) {
        ++most;
        begin = cut;
      }
    }
    throw ConfigError(
        "parallel.sections", fmt::format("{}", count_),
        fmt::format("the model can be cut into at most {} sections with parameters of their own", most),
        fmt::format("use at most {}; a parameter that several parts use keeps them together, and so does an activation "
                    "checkpoint",
                    most));
  }

  const ForwardGraph& graph_;
  int count_;
  std::size_t size_;
  std::vector<std::vector<std::size_t>> uses_;                      // by parameter: operators
  std::vector<std::vector<std::size_t>> uses_of_buffers_;           // by buffer that a section writes: operators
  std::vector<std::size_t> first_made_, last_written_, last_used_;  // by value
  std::vector<bool> kept_together_;                                 // by operator
  std::vector<bool> allowed_;
  std::vector<double> work_, bytes_;
  std::vector<int> has_params_;          // operators with parameters before each position
  std::vector<std::size_t> newest_own_;  // by end of a section: 1 + its newest operator whose parameter stays; 0: none
};

void move_lookups(const ForwardGraph& graph, const Cutter& cutter, Sections& sections) {
  const auto refuse = [&](std::size_t param) {
    throw ConfigError("parallel.sections", fmt::format("{}", sections.has_lookup ? sections.count - 1 : sections.count),
                      fmt::format("{} is also used in an earlier section, and so is a parameter of another section",
                                  graph.params[param]),
                      "use fewer sections, so that the parameters that are used twice share one section");
  };
  const auto section_of = [&](std::size_t op) -> int& { return sections.of_operator[op]; };
  int home = -1;
  for (std::size_t param = 0; param < graph.params.size(); ++param) {
    const std::vector<std::size_t>& uses = cutter.uses_of(static_cast<int>(param));
    if (uses.empty()) continue;
    const int first = section_of(uses.front()), last = section_of(uses.back());
    if (first == last) continue;
    if (home >= 0 && home != last) refuse(param);
    home = last;
  }
  if (home < 0) return;
  for (int& section : sections.of_operator)
    if (section != kEverywhere) ++section;
  sections.work.insert(sections.work.begin(), 0.0);
  ++sections.count;
  sections.has_lookup = true;
  sections.home_of_lookup = home + 1;
  // A lookup takes all its parameters along, and these take their other lookups.
  for (bool moved = true; std::exchange(moved, false);) {
    for (std::size_t param = 0; param < graph.params.size(); ++param) {
      const std::vector<std::size_t>& uses = cutter.uses_of(static_cast<int>(param));
      if (std::ranges::all_of(uses, [&](std::size_t op) { return section_of(op) == section_of(uses.front()); }))
        continue;
      for (const std::size_t op : uses) {
        if (section_of(op) == sections.home_of_lookup || section_of(op) == 0) continue;
        if (!cutter.is_lookup(op)) refuse(param);
        const double work = graph.operators[op].work;
        sections.work[static_cast<std::size_t>(section_of(op))] -= work;
        sections.work[0] += work;
        section_of(op) = 0;
        moved = true;
      }
    }
  }
}

// Fills in the crossings, from the sections of operators.
void find_crossings(const ForwardGraph& graph, Sections& sections) {
  std::vector<int> maker(graph.values.size(), -1);
  for (std::size_t op = 0; op < graph.operators.size(); ++op)
    for (const int value : graph.operators[op].outputs) maker[static_cast<std::size_t>(value)] = static_cast<int>(op);
  std::vector<std::vector<int>> users(graph.values.size());
  for (std::size_t op = 0; op < graph.operators.size(); ++op)
    for (const int value : graph.operators[op].inputs)
      users[static_cast<std::size_t>(value)].push_back(sections.of_operator[op]);
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    if (maker[value] < 0) continue;
    Crossing crossing{.value = static_cast<int>(value), .made_by = maker[value]};
    crossing.from = sections.of_operator[static_cast<std::size_t>(maker[value])];
    std::vector<int>& to = users[value];
    std::ranges::sort(to);
    to.erase(std::unique(to.begin(), to.end()), to.end());
    std::erase(to, crossing.from);
    if (to.empty()) continue;
    crossing.to = std::move(to);
    sections.crossings.push_back(std::move(crossing));
  }
}

Sections sections_between(const ForwardGraph& graph, const Cutter& cutter, const std::vector<std::size_t>& cuts) {
  const int count = static_cast<int>(cuts.size()) - 1;
  Sections sections{.count = count,
                    .of_operator = std::vector<int>(graph.operators.size(), kEverywhere),
                    .home_of_param = std::vector<int>(graph.params.size(), kEverywhere),
                    .crossings = {},
                    .work = std::vector<double>(static_cast<std::size_t>(count), 0.0)};
  for (int section = 0; section < count; ++section) {
    const auto at = static_cast<std::size_t>(section);
    for (std::size_t op = cuts[at]; op < cuts[at + 1]; ++op) {
      if (graph.operators[op].everywhere) continue;
      sections.of_operator[op] = section;
      sections.work[at] += graph.operators[op].work;
    }
  }
  move_lookups(graph, cutter, sections);
  for (std::size_t param = 0; param < graph.params.size(); ++param) {
    const std::vector<std::size_t>& uses = cutter.uses_of(static_cast<int>(param));
    sections.home_of_param[param] = uses.empty() ? sections.count - 1 : sections.of_operator[uses.front()];
  }
  find_crossings(graph, sections);
  return sections;
}

}  // namespace

Sections cut_sections(const ForwardGraph& graph, int count) {
  Cutter cutter(graph, count);
  return sections_between(graph, cutter, cutter.cuts());
}

Sections cut_at_units(const ForwardGraph& graph, const std::vector<std::string>& first_units) {
  const Cutter cutter(graph, static_cast<int>(first_units.size()) + 1);
  return sections_between(graph, cutter, cutter.cuts_before(first_units));
}

Sections follow_sections(const ForwardGraph& graph, const Sections& cut) {
  Sections sections{.count = cut.count,
                    .has_lookup = cut.has_lookup,
                    .home_of_lookup = cut.home_of_lookup,
                    .of_operator = std::vector<int>(graph.operators.size(), kEverywhere),
                    .home_of_param = cut.home_of_param,
                    .crossings = {},
                    .work = std::vector<double>(static_cast<std::size_t>(cut.count), 0.0)};
  const auto refuse = [](const GraphOperator& op, int home, int now) {
    throw ConfigError("passes", op.name,
                      fmt::format("it belongs to section {}, and comes after operators of section {}", home, now),
                      "use parameters in the order of the training pass");
  };
  std::vector<int> maker(graph.values.size(), kEverywhere);    // section that made each value
  std::vector<int> writer(graph.buffers.size(), kEverywhere);  // section that uses each written buffer
  int now = cut.has_lookup ? 1 : 0;
  for (std::size_t op = 0; op < graph.operators.size(); ++op) {
    const GraphOperator& described = graph.operators[op];
    if (described.everywhere) continue;
    int section = kEverywhere;
    for (const int param : described.params) {
      int home = cut.home_of_param[static_cast<std::size_t>(param)];
      const bool is_shared = cut.has_lookup && home == 0;
      if (is_shared && !described.inputs.empty()) home = cut.home_of_lookup;
      section = std::max(section, home);
    }
    for (const int buffer : described.buffers) {
      const int home = writer[static_cast<std::size_t>(buffer)];
      if (home == kEverywhere || home == section) continue;
      if (section != kEverywhere) refuse(described, section, home);
      section = home;
    }
    const bool is_lookup = cut.has_lookup && section == 0;
    if (section == kEverywhere) section = now;
    if (section < now && !is_lookup) refuse(described, section, now);
    if (!is_lookup) now = section;
    for (const int buffer : described.buffers) writer[static_cast<std::size_t>(buffer)] = section;
    for (const int value : described.outputs) {
      int& made = maker[static_cast<std::size_t>(value)];
      if (made != kEverywhere && made != section) refuse(described, section, made);
      made = section;
    }
    sections.of_operator[op] = section;
    sections.work[static_cast<std::size_t>(section)] += described.work;
  }
  find_crossings(graph, sections);
  return sections;
}

}  // namespace zero
