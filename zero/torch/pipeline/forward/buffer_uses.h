// BufferUses: the operators that use and write the model's buffers, noted while a forward pass is learned.
//
//   BufferUses buffers(parameters.buffers, of_sections);
//   buffers.use(tensor, number, op.buffers);                    // each argument that is a buffer
//   buffers.write(tensor, number, op.everywhere, op.buffers);   // each buffer that the operator writes
//   if (buffers.found_late()) ...                               // learn again, with buffers.of_sections()
//
// There are two kinds of written buffers:
//   - a buffer of a section: an operator of one section writes it, as a batch norm writes its running statistics. All
//     operators that use it are in this section.
//   - a common buffer, such as a count of batches: only operators that every rank runs write it. So every rank writes
//     it in every pass.
//
// The destructor resets common buffers to their values before the pass. Local.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zero/torch/module/model_tensors.h"

namespace zero {

class BufferUses {
 public:
  // `of_sections`: by buffer, whether an earlier run found that it is a buffer of a section.
  BufferUses(const std::vector<ModelTensors::Buffer>& buffers, std::vector<bool> of_sections);
  ~BufferUses();
  BufferUses(const BufferUses&) = delete;
  BufferUses& operator=(const BufferUses&) = delete;

  // Whether the tensor is a buffer, or a view of one.
  bool has(const at::Tensor& tensor) const { return find(tensor) != nullptr; }
  const std::string& name_of(const at::Tensor& tensor) const;
  // Notes that operator `number` uses the tensor. Appends buffers of a section to `found`.
  void use(const at::Tensor& tensor, int number, std::vector<int>& found);
  // Notes that operator `number` is about to write the tensor. `everywhere`: every rank runs the operator. Otherwise
  // the buffer becomes a buffer of a section, and is appended to `found`.
  void write(const at::Tensor& tensor, int number, bool everywhere, std::vector<int>& found);

  bool is_written(const at::Tensor& tensor) const;
  // Whether an operator used a buffer before another one made it a buffer of a section.
  bool found_late() const { return found_late_; }
  const std::vector<bool>& of_sections() const { return of_sections_; }
  std::vector<int> section_buffers() const;
  std::vector<int> common_buffers() const;

 private:
  // Returns the numbers of the buffers that share the tensor's memory; null: none.
  const std::vector<int>* find(const at::Tensor& tensor) const;

  const std::vector<ModelTensors::Buffer>& buffers_;
  std::unordered_map<const c10::StorageImpl*, std::vector<int>> numbers_;
  std::vector<bool> of_sections_;
  std::map<int, int> first_use_;      // by buffer: the first operator that uses it
  std::map<int, at::Tensor> before_;  // by buffer that every rank writes: its values before the run
  bool found_late_ = false;
};

}  // namespace zero
