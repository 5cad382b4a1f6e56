// GeneratorScope, AutocastScope: the state that operators read besides their arguments (the CPU's default generator,
// and autocast), for a computation that runs a second time.
//
//   const at::Tensor then = generator_state();
//   const Autocast autocast = Autocast::now();
//   ...
//   { const GeneratorScope random(then); const AutocastScope casts(autocast); y = fn(x); }     // the same dropout
//
// Local. The generator belongs to the process, autocast to the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace zero {

at::Tensor generator_state();

// The generator continues from `state`, and afterwards from where it was. Nothing happens for an undefined state.
class GeneratorScope {
 public:
  explicit GeneratorScope(const at::Tensor& state);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  at::Tensor outer_;
};

struct Autocast {
  bool enabled = false;
  at::ScalarType dtype = at::kBFloat16;
  static Autocast now();
};

// Autocast as given, without its cache: a cast kept from outside would belong to another graph, and one kept for
// outside would outlive the weights it was made from.
class AutocastScope {
 public:
  explicit AutocastScope(const Autocast& autocast);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  Autocast outer_;
  bool outer_cache_;
};

}  // namespace zero
