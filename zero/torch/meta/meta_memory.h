// MetaMemory: counts the bytes that new tensors on the meta device would take if they had memory, while it lives.
//
//   const MetaMemory memory;
//   torch::Tensor loss = model->forward(meta_tokens);      // memory.live_bytes(): the loss, and tensors for backward
//   loss.backward();                                       // memory.peak_bytes(): the most bytes at once
//
// It counts for the whole process; only one may live at a time. Tensors may outlive it. Local.
#pragma once

#include <cstdint>
#include <memory>

namespace c10 {
struct Allocator;
}

namespace zero {

class MetaMemory {
 public:
  MetaMemory();
  MetaMemory(const MetaMemory&) = delete;
  MetaMemory& operator=(const MetaMemory&) = delete;
  ~MetaMemory();

  std::int64_t live_bytes() const;
  std::int64_t peak_bytes() const;

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  c10::Allocator* before_;
};

}  // namespace zero
