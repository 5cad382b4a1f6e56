// Recorder: writes down how a module was constructed, so that each tensor can be made later, alone.
//
// While a recorder is current on a thread, every operator comes to run(): it is executed on the meta device (shapes, no
// memory) and kept as a step of the tape, with tensors written as (storage, sizes, strides, offset). Building one
// tensor replays the steps its storage depends on, on the CPU, with a generator seeded by (seed, parameter name).
//
// The storages of the tensors made carry the tape in the context of their DataPtr. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace zero {

// One operator of a construction.
struct RecordedStep {
  // A tensor argument or result, by storage: views need no steps of their own.
  struct TensorRef {
    int storage = -1;  // -1: undefined
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    std::int64_t offset = 0;
    at::ScalarType dtype = at::kFloat;
  };
  struct Argument {
    c10::IValue value;               // anything that is no tensor
    std::vector<TensorRef> tensors;  // of a tensor, or a list of them
  };
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  std::vector<TensorRef> results;
  std::vector<int> reads;  // storages
  std::vector<int> writes;
};

struct Tape {
  std::uint64_t seed = 0;
  std::vector<RecordedStep> steps;
  int num_storages = 0;
};

// A tape and the storage on it that a tensor's DataPtr stands for.
struct TapeRef {
  std::shared_ptr<const Tape> tape;
  int storage = 0;
};
const TapeRef* tape_of(const at::Tensor& tensor);

class Recorder {
 public:
  explicit Recorder(std::uint64_t seed);

  // The calling thread's, or null. Set by detail::RecordingScope and by nobody else.
  static Recorder* current();
  static Recorder* exchange_current(Recorder* recorder);

  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);

 private:
  RecordedStep::Argument describe(const c10::IValue& value, std::vector<int>& storages);
  RecordedStep::TensorRef describe(const at::Tensor& tensor, std::vector<int>& storages);
  int storage_of(const at::Tensor& tensor);

  std::shared_ptr<Tape> tape_;
  std::unordered_map<const c10::StorageImpl*, int> storages_;
  std::vector<c10::Storage> kept_;  // so that no address is used twice while recording
};

// Replays what `tensor` depends on and returns it on the CPU, with the sizes and strides it has.
at::Tensor replay(const TapeRef& ref, const at::Tensor& tensor, const std::string& name);

}  // namespace zero
