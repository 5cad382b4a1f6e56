#include "zero/checkpoint/image/saved_states.h"

#include <algorithm>

#include <fmt/format.h>

namespace zero {
namespace {

constexpr int kNumShared = 2;  // states that copies share: the anchor, called "parameter", and the outer momentum

std::string of_copy(const std::string& name, int copy) {
  return fmt::format("{}@{}", name, copy);
}

// Returns the number of copies that the checkpoint has states of; 0: it is of one model.
int num_saved_copies(const std::vector<std::string>& saved) {
  int copies = 0;
  while (std::ranges::find(saved, of_copy("parameter", copies)) != saved.end()) ++copies;
  return copies;
}

}  // namespace

ApartCopies ApartCopies::of(RankEngine& engine) {
  const EngineResources resources = engine.resources();
  if (!resources.options.local) return {};
  return {resources.mesh.copies, resources.mesh.copy_of(resources.comm.rank())};
}

SavedStates::SavedStates(const std::vector<std::string>& engine_names, const ApartCopies& copies)
    : num_own_(static_cast<int>(engine_names.size()) - (copies.number > 0 ? kNumShared : 0)) {
  const std::vector<std::string> own(engine_names.begin(), engine_names.begin() + num_own_);
  if (copies.number == 0) {
    names_ = own;
    return;
  }
  names_ = {"parameter", std::string(kOuterMomentumState)};
  first_own_ = kNumShared + copies.place * num_own_;
  for (int copy = 0; copy < copies.number; ++copy)
    for (const std::string& name : own) names_.push_back(of_copy(name, copy));
}

// The engine has the states of a copy first, then the outer momentum, then the anchor.
SavedState SavedStates::of_unit(const Unit& unit, int engine_state) const {
  if (first_own_ == 0) return {engine_state};
  if (!unit.trainable) return {0};
  if (engine_state >= num_own_) return {engine_state == num_own_ ? 1 : 0};
  return {first_own_ + engine_state, /*of_copy=*/true};
}

std::optional<std::vector<int>> SavedStates::find(const std::vector<std::string>& saved,
                                                  const std::vector<std::string>& engine_names,
                                                  const ApartCopies& copies) {
  std::vector<std::string> names(engine_names.begin(), engine_names.end() - (copies.number > 0 ? kNumShared : 0));
  const bool wants_residual = names.back() == kOuterResidualState;
  if (wants_residual) names.pop_back();
  const int num_own = static_cast<int>(names.size()), saved_copies = num_saved_copies(saved);
  const bool has_residual = std::ranges::find(saved, of_copy(std::string(kOuterResidualState), 0)) != saved.end();
  if (has_residual) names.emplace_back(kOuterResidualState);
  const int num_saved_own = static_cast<int>(names.size());
  if (saved_copies > 0) names.insert(names.end(), {std::string(kOuterMomentumState), std::string(kAnchorState)});
  if (saved != SavedStates(names, {saved_copies, 0}).names()) return std::nullopt;

  std::vector<int> numbers;
  const int from = copies.number > 0 && saved_copies > 0 ? copies.place % saved_copies : 0;
  const int first_own = kNumShared + from * num_saved_own;
  for (int state = 0; state < num_own; ++state) {
    const bool shared = state == 0 && saved_copies != copies.number;
    numbers.push_back(saved_copies == 0 || shared ? state : first_own + state);
  }
  if (wants_residual) numbers.push_back(has_residual && saved_copies == copies.number ? first_own + num_own : kZeros);
  if (copies.number > 0) {
    numbers.push_back(saved_copies > 0 ? 1 : kZeros);
    numbers.push_back(0);
  }
  return numbers;
}

}  // namespace zero
