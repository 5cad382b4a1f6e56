// GeneratorScope, AutocastScope: restore a generator's state and autocast for a computation that runs a second time.
//
//   const at::Tensor then = generator_state(place);
//   const Autocast autocast = Autocast::now(place.type());
//   ...
//   { const GeneratorScope random(then, place); const AutocastScope casts(autocast); y = fn(x); }   // same dropout
//
// Besides their arguments, operators read the default generator of a device, and autocast. Generators belong to the
// process, autocast to the calling thread. Local.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace zero {

inline const c10::Device kOnCpu(c10::DeviceType::CPU);

// Return and set the state of the default generator of `place`. The state is bytes on the CPU for every device.
at::Tensor generator_state(c10::Device place = kOnCpu);
void set_generator_state(const at::Tensor& state, c10::Device place);

// Makes the generator continue from `state`. The destructor restores its earlier state. An undefined state: no-op.
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
  c10::DeviceType of = c10::DeviceType::CPU;  // device whose operators cast
  static Autocast now(c10::DeviceType of = c10::DeviceType::CPU);
};

// Sets autocast as given, without its cache. A cast cached outside the scope belongs to another graph. A cast cached
// inside the scope would outlive the weights from which it was made.
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
