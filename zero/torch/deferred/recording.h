// Recorder: records how a module was constructed, so each tensor can be built later, separately.
//
// While a recorder is the thread's OperatorTaker, the dispatcher calls run() for every operator. run() executes it on
// the meta device (shapes, no memory) and stores it as a step of the tape. The step stores tensors as (storage,
// sizes, strides, offset). To build one tensor, replay() runs the steps on which its storage depends, on the CPU, with
// a generator seeded by (seed, parameter name).
//
// If an argument is a tensor with values, the step stores it as a constant. Examples are Python's torch.tensor(0), and
// the number 8 in `arange / 8`, of which libtorch makes a tensor below the dispatcher. An operator that writes into
// such a tensor is refused with ConfigError.
//
// The DataPtr of each resulting storage has the tape in its context. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "zero/torch/seam/operator_taker.h"

namespace zero {

// One recorded operator of a construction.
struct RecordedStep {
  // A tensor argument or result, by storage. Views need no steps of their own.
  struct TensorRef {
    int storage = -1;  // -1: undefined
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    std::int64_t offset = 0;
    at::ScalarType dtype = at::kFloat;
    at::Tensor constant{};  // a copy of a tensor with values, which no recorded step has made; then `storage` is -1
  };
  struct Argument {
    c10::IValue value;               // any argument that is not a tensor
    std::vector<TensorRef> tensors;  // one tensor, or a list of tensors
  };
  c10::OperatorHandle op;
  caffe2::TypeMeta default_dtype{};  // torch's default type when the step was recorded
  std::vector<Argument> arguments;
  std::vector<TensorRef> results;
  std::vector<int> reads;  // storages that the step reads
  std::vector<int> writes;
};

struct Tape {
  std::uint64_t seed = 0;
  std::vector<RecordedStep> steps;
  int num_storages = 0;
};

// The tape and the storage on it that a tensor's DataPtr represents.
struct TapeRef {
  std::shared_ptr<const Tape> tape;
  int storage = 0;
};
const TapeRef* tape_of(const at::Tensor& tensor);

class Recorder final : public OperatorTaker {
 public:
  explicit Recorder(std::uint64_t seed);

  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override;

 private:
  RecordedStep::Argument describe(const c10::IValue& value, std::vector<int>& storages);
  RecordedStep::TensorRef describe(const at::Tensor& tensor, std::vector<int>& storages);
  int storage_of(const at::Tensor& tensor);
  // Replaces constants in an argument by tensors of the same shapes on the meta device.
  static void make_meta(c10::IValue& value);

  std::shared_ptr<Tape> tape_;
  std::unordered_map<const c10::StorageImpl*, int> storages_;
  std::vector<c10::Storage> kept_;  // kept, so no address is reused while recording
};

// Replays the steps on which `tensor` depends and returns the tensor on the CPU, with its sizes and strides.
at::Tensor replay(const TapeRef& ref, const at::Tensor& tensor, const std::string& name);

}  // namespace zero
