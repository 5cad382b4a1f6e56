#include "zero/engine/outer/outer_pass.h"

namespace zero {
namespace {

// The states of an outer step: a copy's residual, the momentum, and, as the last one, the anchor.
bool is_residual(const StateSpec& state) {
  return state.outer && state.of_copy;
}

constexpr PassStates kDifferences{.parameter = true,
                                  .touches = [](const StateSpec& state, std::size_t index, std::size_t count) {
                                    return index + 1 == count || is_residual(state);
                                  }};
constexpr PassStates kResiduals{
    .writes = true,
    .touches = [](const StateSpec& state, std::size_t /*index*/, std::size_t /*count*/) { return is_residual(state); }};
constexpr PassStates kMerge{.parameter = true,
                            .writes = true,
                            .touches = [](const StateSpec& state, std::size_t /*index*/, std::size_t /*count*/) {
                              return state.outer && !is_residual(state);
                            }};
constexpr PassStates kAnchors{.writes = true, .touches = kMerge.touches};

UnitGradient gradient_of(const float* elements) {
  return {.data = reinterpret_cast<const std::byte*>(elements)};
}

}  // namespace

void OuterPass::merge(int unit, OuterSum& sum) {
  updater_.run_alone([&] {
    updater_.values().set_all_present();
    sum.begin(unit);
    subtract(unit, sum.elements(), [&] { sum.take_largest(unit); });
    sum.add(unit);
    updater_.tiles().over(unit, kMerge, gradient_of(sum.elements()), kUnchanged,
                          [this](std::size_t /*param*/, const UpdateSpan& span) { outer_.update(span); });
  });
}

void OuterPass::take_differences(int unit, OuterExchange& exchange) {
  updater_.run_alone([&] {
    updater_.values().set_all_present();
    exchange.begin(unit);
    subtract(unit, exchange.elements(), [&] { exchange.take_largest(); });
    exchange.pack(unit);
  });
}

void OuterPass::move_anchors(int unit, OuterExchange& exchange) {
  updater_.run_alone([&] {
    updater_.values().set_all_present();
    updater_.tiles().over(unit, kAnchors, gradient_of(exchange.sums(unit)), kUnchanged,
                          [this](std::size_t /*param*/, const UpdateSpan& span) { outer_.move(span); });
  });
}

template <typename TakeLargest>
void OuterPass::subtract(int unit, float* elements, TakeLargest take_largest) {
  updater_.tiles().over(
      unit, kDifferences, {},
      [&](TileMemory& memory, const Tile& tile) { memory.states[outer_.momentum_place()] = elements + tile.begin; },
      [this](std::size_t /*param*/, const UpdateSpan& span) { outer_.subtract(span); });
  if (!outer_.keeps_residual()) return;
  take_largest();
  updater_.tiles().over(unit, kResiduals, gradient_of(elements), kUnchanged,
                        [this](std::size_t /*param*/, const UpdateSpan& span) { outer_.keep(span); });
}

}  // namespace zero
