// ParameterStorage: the storage of one attached parameter. The storage itself knows its owner and its parameter.
//
// The context of its DataPtr is a handle with the parameter's index, so "which unit is this?" needs no registry: views,
// detach(), tied weights and tensors saved for backward share the StorageImpl and are all recognised. The logical size
// is kept while the pointer is null, so that views of a released parameter can still be made. Whoever asks a released
// storage for its memory without an operator of libtorch (data_ptr(), accessor(), DLPack, torch::save) gets a
// c10::Error with the parameter's name, never a null pointer that reads as zeros.
//
//   ParameterStorage storage(owner, param, "blocks.0.up.weight", bytes);
//   storage.point_to(block + offset);         // gathered
//   storage.point_to(nullptr);                // released
//   ParameterStorage::of(tensor)              // its handle; null for any other tensor
//
// Local.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <c10/core/Storage.h>

#include "zero/engine/gather/gathered_unit.h"

namespace at {
class Tensor;
class TensorBase;
}  // namespace at

namespace zero {

// Who answers when an operator is about to use a parameter.
class ParameterOwner {
 public:
  virtual ~ParameterOwner() = default;
  virtual GatheredUnit use(int param, bool writes) = 0;
  // Called after an operator that writes; `held` comes from use(). The default does nothing.
  virtual void wrote(int /*param*/, const GatheredUnit& /*held*/) {}
  // Collective, if other ranks hold the same weights. The rows of `param` that an operator is about to write by these
  // numbers, on any rank.
  virtual at::Tensor rows_of_all_ranks(int param, const at::Tensor& rows);
  // autograd has put a whole gradient into the parameter's .grad.
  virtual void take_gradient(int param) = 0;
};

struct ParameterHandle {
  ParameterOwner* owner = nullptr;
  int param = 0;
};

class ParameterStorage {
 public:
  ParameterStorage(ParameterOwner& owner, int param, const std::string& name, std::size_t bytes,
                   c10::Device device = c10::DeviceType::CPU);
  ParameterStorage(ParameterStorage&&) noexcept = default;

  void point_to(std::byte* data);
  // Ordinary memory of its own from now on: `data` is owned by the storage.
  void give_back(c10::DataPtr data);
  // Gives up this reference to the storage: only tensors hold it from now on.
  void let_go() { storage_ = c10::Storage(); }
  // No memory from now on, and no owner either: whoever asks for it is told so.
  void leave_empty(const std::string& name);

  const c10::Storage& storage() const { return storage_; }
  static ParameterHandle* of(const at::TensorBase& tensor);

 private:
  void set(c10::DataPtr data);

  std::unique_ptr<ParameterHandle> handle_;
  c10::Storage storage_;
};

}  // namespace zero
