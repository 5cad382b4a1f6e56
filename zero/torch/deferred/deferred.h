// deferred(): build a module without its memory.
//
//   auto model = zero::deferred([] { return std::make_shared<Net>(); }, /*seed=*/1337);   // shapes alone (meta device)
//   auto engine = zero::attach(*model, world);                                            // built, a unit at a time
//
// Records the module's own construction (empty, normal_, kaiming_uniform_, ...) and replays each parameter's part of it
// when attach() wants it, seeded by (seed, parameter name): the weights depend neither on world nor on stage, and no
// rank ever holds the whole model. What cannot be recorded (a construction that reads a tensor's values) throws, with
// the operator's name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <torch/nn/module.h>

namespace zero {

class Recording;  // zero/torch/deferred/recording.h

namespace detail {
// Turns recording on for the calling thread while it lives.
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

// Local. The result of `make` (a shared_ptr to a module, or a module holder), its parameters and buffers on the meta
// device.
template <typename Make>
auto deferred(Make&& make, std::uint64_t seed = 0) {
  detail::RecordingScope scope(seed);
  return std::forward<Make>(make)();
}

// Local. True for a tensor made under deferred() and not built yet.
bool is_deferred(const torch::Tensor& tensor);

// Local. Builds one such tensor on the CPU; `name` and the recording's seed decide its random numbers.
torch::Tensor build_deferred(const torch::Tensor& tensor, const std::string& name);

}  // namespace zero
