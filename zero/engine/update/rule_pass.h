// RulePass: updates tiles with an optimizer's rule, or with another rule instead of an update.
//
//   RulePass pass(rule, kRuleUpdate, state, values, tiles, timeline);
//   tiles.begin(pass.states(), ranges);
//   pass.update(*stream.next(), gradient);          // parameters of the tile are new
//
// On a device, updates are queued in kUpdate. Local. Throws IoError.
#pragma once

#include "zero/base/process/timeline.h"
#include "zero/engine/update/update_tiles.h"

namespace zero {

// An update. Its rule ignores the states of an outer step.
constexpr PassStates kRuleUpdate{
    .gradient = true,
    .parameter = true,
    .writes = true,
    .touches = [](const StateSpec& state, std::size_t /*index*/, std::size_t /*count*/) { return !state.outer; }};
// A rule of Updater::begin_rule(), which exchanges parameters and the last of their states.
constexpr PassStates kOtherRule{
    .parameter = true, .writes = true, .touches = [](const StateSpec& /*state*/, std::size_t index, std::size_t count) {
      return index + 1 == count;
    }};

class RulePass {
 public:
  // All must outlive it; `states` is one of the constants above.
  RulePass(const UpdateRule& rule, const PassStates& states, ShardedState& state, const StepValues& values,
           UpdateTiles& tiles, Timeline* timeline)
      : rule_(&rule), states_(states), state_(&state), values_(&values), tiles_(&tiles), timeline_(timeline) {}

  const PassStates& states() const { return states_; }
  // Returns whether the pass reads gradients: it is an update.
  bool is_update() const { return states_.gradient; }
  // Updates the parameters of a tile of the begun pass. It also copies them to their place in `copy_to`, which has the
  // unit's update range; null: not.
  void update(const Tile& tile, const UnitGradient& gradient, std::byte* copy_to = nullptr);

 private:
  const UpdateRule* rule_;
  PassStates states_;
  ShardedState* state_;
  const StepValues* values_;
  UpdateTiles* tiles_;
  Timeline* timeline_;
};

}  // namespace zero
