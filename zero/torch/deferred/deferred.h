// deferred(): constructs a module without allocating its memory.
//
//   auto model = zero::deferred([] { return std::make_shared<Net>(); }, /*seed=*/1337);   // only shapes (meta device)
//   auto engine = zero::attach(*model, world);                                            // built, a unit at a time
//
// It records the module's own construction (empty, normal_, kaiming_uniform_, ...). attach() replays the recorded
// operators of each parameter, seeded by (seed, parameter name). So the weights depend neither on world nor on stage,
// and no rank ever holds the whole model. Tensors with values, such as those made before, are copied into the
// recording. A construction cannot be recorded if it reads the values of a recorded tensor, or writes into a tensor
// with values. ConfigError then names the operator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <torch/nn/module.h>

namespace zero {

class Recording;  // zero/torch/deferred/recording.h

namespace detail {
// Records on the calling thread while it lives.
class RecordingScope {
 public:
  explicit RecordingScope(std::uint64_t seed);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
}  // namespace detail

// Local. Returns the result of `make` (a shared_ptr to a module, or a module holder), with parameters and buffers on
// the meta device.
template <typename Make>
auto deferred(Make&& make, std::uint64_t seed = 0) {
  detail::RecordingScope scope(seed);
  return std::forward<Make>(make)();
}

// Local. True for a tensor that was made under deferred() and is not built yet.
bool is_deferred(const torch::Tensor& tensor);

// Local. Builds such a tensor on the CPU. Its random numbers depend on `name` and the recording's seed.
torch::Tensor build_deferred(const torch::Tensor& tensor, const std::string& name);

}  // namespace zero
