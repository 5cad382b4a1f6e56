#include "zero/torch/surroundings.h"

#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>

namespace zero {
namespace {

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

void set_autocast(const Autocast& autocast) {
  at::autocast::set_autocast_enabled(at::kCPU, autocast.enabled);
  at::autocast::set_autocast_dtype(at::kCPU, autocast.dtype);
}

}  // namespace

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

GeneratorScope::GeneratorScope(const at::Tensor& state) {
  if (!state.defined()) return;
  outer_ = generator_state();
  set_generator_state(state);
}

GeneratorScope::~GeneratorScope() {
  if (outer_.defined()) set_generator_state(outer_);
}

Autocast Autocast::now() {
  return {at::autocast::is_autocast_enabled(at::kCPU), at::autocast::get_autocast_dtype(at::kCPU)};
}

AutocastScope::AutocastScope(const Autocast& autocast)
    : outer_(Autocast::now()), outer_cache_(at::autocast::is_autocast_cache_enabled()) {
  set_autocast(autocast);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  set_autocast(outer_);
  at::autocast::set_autocast_cache_enabled(outer_cache_);
}

}  // namespace zero
