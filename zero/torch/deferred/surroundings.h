// GeneratorScope, AutocastScope: the state that operators read besides their arguments (a device's default generator,
// and autocast), for a computation that runs a second time.
//
//   const at::Tensor then = generator_state(place);
//   const Autocast autocast = Autocast::now(place.type());
//   ...
//   { const GeneratorScope random(then, place); const AutocastScope casts(autocast); y = fn(x); }     // the same dropout
//
// Local. Generators belong to the process, autocast to the calling thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace zero {

inline const c10::Device kOnCpu(c10::DeviceType::CPU);

// Bytes on the CPU, whatever device they are of.
at::Tensor generator_state(c10::Device place = kOnCpu);
void set_generator_state(const at::Tensor& state, c10::Device place);

// The generator continues from `state`, and afterwards from where it was. Nothing happens for an undefined state.
class GeneratorScope {
 public:
  explicit GeneratorScope(const at::Tensor& state, c10::Device place = kOnCpu);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  c10::Device place_;
  at::Tensor outer_;
};

struct Autocast {
  bool enabled = false;
  at::ScalarType dtype = at::kBFloat16;
  c10::DeviceType of = c10::DeviceType::CPU;  // whose operators cast
  static Autocast now(c10::DeviceType of = c10::DeviceType::CPU);
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
