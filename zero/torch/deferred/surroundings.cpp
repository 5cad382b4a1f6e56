#include "zero/torch/deferred/surroundings.h"

#include <mutex>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "zero/torch/seam/dispatch_key.h"

namespace zero {
namespace {

void set_autocast(const Autocast& autocast) {
  at::autocast::set_autocast_enabled(autocast.of, autocast.enabled);
  at::autocast::set_autocast_dtype(autocast.of, autocast.dtype);
}

}  // namespace

// Operators of these functions are not those of the program, so no taker sees them.
at::Tensor generator_state(c10::Device place) {
  const c10::impl::ExcludeDispatchKeyGuard not_taken(kParameterKey);
  at::Generator generator = at::globalContext().defaultGenerator(place);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state, c10::Device place) {
  const c10::impl::ExcludeDispatchKeyGuard not_taken(kParameterKey);
  at::Generator generator = at::globalContext().defaultGenerator(place);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

GeneratorScope::GeneratorScope(const at::Tensor& state, c10::Device place) : place_(place) {
  if (!state.defined()) return;
  outer_ = generator_state(place_);
  set_generator_state(state, place_);
}

GeneratorScope::~GeneratorScope() {
  if (outer_.defined()) set_generator_state(outer_, place_);
}

Autocast Autocast::now(c10::DeviceType of) {
  return {at::autocast::is_autocast_enabled(of), at::autocast::get_autocast_dtype(of), of};
}

AutocastScope::AutocastScope(const Autocast& autocast)
    : outer_(Autocast::now(autocast.of)), outer_cache_(at::autocast::is_autocast_cache_enabled()) {
  set_autocast(autocast);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  set_autocast(outer_);
  at::autocast::set_autocast_cache_enabled(outer_cache_);
}

}  // namespace zero
