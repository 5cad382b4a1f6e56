// ElementwiseRule: a rule that updates each element by itself, made of its kernel's two functions.
//
//   std::unique_ptr<UpdateRule> make_rule(const LionOptions& options) {
//     return std::make_unique<ElementwiseRule<LionOptions>>(options, fp32({"exp_avg"}), update, queue);
//   }
//
// `update` updates a span on the host; `queue` queues updates of several spans on a device. Local.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zero/optim/rule/rule_checks.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

// Returns fp32 states with these names.
inline std::vector<StateSpec> fp32(std::initializer_list<std::string_view> names) {
  std::vector<StateSpec> states;
  for (const std::string_view name : names) states.push_back({std::string(name)});
  return states;
}

// `Options` must have a row, Options::kRow.
template <typename Options>
class ElementwiseRule : public UpdateRule {
 public:
  using Update = void (*)(const UpdateSpan& span, const Options& options, const UpdateScalars& scalars);
  using Queue = void (*)(Device& device, Lane lane, std::span<const SpanUpdate> updates, const Options& options);

  ElementwiseRule(const Options& options, std::vector<StateSpec> states, Update update, Queue queue)
      : options_(options), states_(std::move(states)), update_(update), queue_(queue) {}
  std::string_view name() const override { return Options::kRow.name; }
  std::vector<StateSpec> states() const override { return states_; }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, states_.size(), span, scalars);
    update_(span, options_, scalars);
  }
  bool keeps_average() const override { return true; }  // update_elements() updates the average
  void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const override {
    for (const SpanUpdate& update : updates) check_update(*this, states_.size(), update.span, update.scalars);
    queue_(device, lane, updates, options_);
  }

 protected:
  const Options& options() const { return options_; }

 private:
  Options options_;
  std::vector<StateSpec> states_;
  Update update_;
  Queue queue_;
};

}  // namespace zero
