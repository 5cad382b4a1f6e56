#include "zero/torch/pipeline/pass/step_buffers.h"

#include <cstddef>
#include <cstring>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "zero/base/error/check.h"
#include "zero/comm/collectives.h"
#include "zero/torch/pipeline/forward/absent_tensor.h"

namespace zero {

StepBuffers::StepBuffers(const std::vector<ModelTensors::Buffer>& buffers, const ForwardPlan& forward, int micros)
    : buffers_(buffers), forward_(forward) {
  if (forward_.common_buffers.empty()) return;
  starts_.resize(static_cast<std::size_t>(micros) + 1);
  starts_.front() = now();
}

StepBuffers::Values StepBuffers::now() const {
  Values values;
  for (const int buffer : forward_.common_buffers)
    values.push_back(buffers_[static_cast<std::size_t>(buffer)].tensor.detach().clone());
  return values;
}

void StepBuffers::set(const Values& values) const {
  ZERO_CHECK(values.size() == forward_.common_buffers.size(), "a micro-batch begins before the one before it");
  const c10::AutoGradMode no_gradients(false);
  for (std::size_t i = 0; i < values.size(); ++i)
    buffers_[static_cast<std::size_t>(forward_.common_buffers[i])].tensor.copy_(values[i]);
}

void StepBuffers::begin(int micro) {
  if (!starts_.empty()) set(starts_[static_cast<std::size_t>(micro)]);
}

void StepBuffers::end(int micro) {
  if (starts_.empty()) return;
  Values& next = starts_[static_cast<std::size_t>(micro) + 1];
  if (next.empty()) next = now();
}

void StepBuffers::begin_backward(int micro) {
  if (!starts_.empty()) set(starts_[static_cast<std::size_t>(micro) + 1]);
}

void StepBuffers::end_step(Communicator& line, const std::vector<int>& positions) {
  if (!starts_.empty()) set(starts_.back());
  std::vector<std::vector<at::Tensor>> by_position(static_cast<std::size_t>(line.world()));
  for (const int buffer : forward_.section_buffers) {
    const auto section = static_cast<std::size_t>(forward_.section_of_buffer(buffer));
    by_position[static_cast<std::size_t>(positions[section])].push_back(
        buffers_[static_cast<std::size_t>(buffer)].tensor);
  }
  for (int position = 0; position < line.world(); ++position)
    share(by_position[static_cast<std::size_t>(position)], line, position);
}

// Copies the values of rank `position` into the tensors of the other ranks of the line.
void StepBuffers::share(const std::vector<at::Tensor>& tensors, Communicator& line, int position) {
  if (tensors.empty()) return;
  const c10::AutoGradMode no_gradients(false);
  std::vector<std::byte> bytes;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor dense = with_own_bytes(tensor).contiguous();
    const auto* const first = static_cast<const std::byte*>(dense.const_data_ptr());
    bytes.insert(bytes.end(), first, first + dense.nbytes());
  }
  broadcast(line, bytes, position, {.control = true});
  if (line.rank() == position) return;
  const std::byte* from = bytes.data();
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()));
    std::memcpy(values.mutable_data_ptr(), from, values.nbytes());
    from += values.nbytes();
    tensor.copy_(values);
  }
}

}  // namespace zero
