// PipelinedModule::compare_replicas(): each section's engine compares its states over the ranks of its position.
#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/comm/collectives.h"
#include "zero/torch/pipeline/pipelined_module.h"

namespace zero {
namespace {

// Writes a check as text that ranks can exchange. "1|0|h.2|3 4": compared, unit, its name, ranks of the run.
std::string text_of(const ReplicaCheck& check) {
  return fmt::format("{}|{}|{}|{}", check.compared ? 1 : 0, check.unit, check.unit_name, fmt::join(check.ranks, " "));
}

void add_text(ReplicaCheck& whole, std::string_view text) {
  const auto next_field = [&text](char end) {
    const std::string_view part = text.substr(0, text.find(end));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    return part;
  };
  const auto number = [](std::string_view part) {
    int value = -1;
    std::from_chars(part.data(), part.data() + part.size(), value);
    return value;
  };
  const bool compared = next_field('|') == "1";
  whole.compared = whole.compared || compared;
  const int unit = number(next_field('|'));
  const std::string_view name = next_field('|');
  if (whole.unit < 0 && unit >= 0) {
    whole.unit = unit;
    whole.unit_name = name;
  }
  while (!text.empty()) whole.ranks.push_back(number(next_field(' ')));
}

}  // namespace

ReplicaCheck PipelinedModule::compare_replicas() {
  require_attached("compare_replicas");
  ReplicaCheck mine;
  for (const auto& module : modules_) {
    if (module == nullptr) continue;
    module->steps().drop_zeroed();
    ReplicaCheck of_section = module->engine().states().compare_replicas();
    for (int& rank : of_section.ranks) rank += grid_.position * grid_.data_ranks;
    add_text(mine, text_of(of_section));
  }
  ReplicaCheck whole;
  for (const std::string& text : all_gather_text(world_.communicator(), text_of(mine))) add_text(whole, text);
  std::ranges::sort(whole.ranks);
  const auto repeated = std::ranges::unique(whole.ranks);
  whole.ranks.erase(repeated.begin(), repeated.end());
  return whole;
}

}  // namespace zero
