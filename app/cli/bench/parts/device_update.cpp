#include "app/cli/bench/parts/device_update.h"

#include <cstddef>

#include "zero/base/error/error.h"

namespace zero::cli {
namespace {

constexpr std::byte kSmall{0x3c};  // four of these bytes are the float 0.0115

// Rounds down to whole blocks of a state in 8 bits.
std::int64_t in_blocks(std::int64_t numel) {
  return numel / kCodeBlock * kCodeBlock;
}

}  // namespace

DeviceUpdate::DeviceUpdate(Device& device, const OptimizerOptions& options, UpdatePass pass, std::int64_t numel)
    : device_(device), rule_(make_update_rule(options)), pass_(pass) {
  numel = in_blocks(numel);
  if (pass == UpdatePass::kUpdate && needs_of(*rule_) != RuleNeeds::kElements)
    throw ConfigError("--name", rule_->name(), "it is not measured on a device",
                      "use " + rule_names(RuleNeeds::kElements) + "; or --device cpu");
  const auto add = [&](std::int64_t bytes) {
    return memory_.emplace_back(device_.allocate(static_cast<std::size_t>(bytes))).data();
  };
  std::byte* const gradient = add(4 * numel);
  span_ = {.parameter = reinterpret_cast<float*>(add(4 * numel)), .gradient = gradient, .numel = numel};
  // The gradient is read, and the parameter is read and written. A direction is only written.
  touched_bytes_ = (pass == UpdatePass::kDirection ? 8 : 12) * numel;
  const std::vector<StateSpec> states = rule_->states();
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (pass == UpdatePass::kStep || (pass == UpdatePass::kDirection && states[i].of != StateOf::kMatrices)) continue;
    if (states[i].coded()) {
      span_.coded[i] = {reinterpret_cast<std::uint8_t*>(add(numel)),
                        reinterpret_cast<float*>(add(numel / kCodeBlock * 4))};
      touched_bytes_ += 2 * (numel + numel / kCodeBlock * 4);
    } else {
      span_.states[i] = reinterpret_cast<float*>(add(4 * numel));
      touched_bytes_ += 8 * numel;
    }
  }
  from_ = device_.allocate(static_cast<std::size_t>(touched_bytes_ / 2));
  to_ = device_.allocate(static_cast<std::size_t>(touched_bytes_ / 2));
  device_.fill(Lane::kUpdate, {gradient, static_cast<std::size_t>(4 * numel)}, kSmall);
  device_.join(device_.mark(Lane::kUpdate));
}

void DeviceUpdate::run() {
  SpanUpdate update{span_, UpdateScalars{.step = ++step_, .lr = 1e-3, .gradient_scale = 1, .weight_decay = 0.01}};
  if (pass_ != UpdatePass::kUpdate) update.scalars.matrix = {span_.numel / kCodeBlock, kCodeBlock};
  pass_ == UpdatePass::kDirection ? rule_->matrices()->queue_directions(device_, Lane::kUpdate, {&update, 1})
                                  : rule_->queue(device_, Lane::kUpdate, {&update, 1});
  device_.join(device_.mark(Lane::kUpdate));
}

void DeviceUpdate::copy() {
  device_.copy(Lane::kUpdate, to_.bytes(), from_.bytes());
  device_.join(device_.mark(Lane::kUpdate));
}

}  // namespace zero::cli
