// ParameterStorage: the storage of one attached parameter. The storage itself knows its owner and its parameter.
//
//   ParameterStorage storage(owner, param, "blocks.0.up.weight", bytes);
//   storage.point_to(block + offset);         // gathered
//   storage.point_to(nullptr);                // released
//   ParameterStorage::of(tensor)              // its handle; null for any other tensor
//
// The context of its DataPtr is a handle with the parameter's index, so no registry is needed to find the unit. Views,
// detach(), tied weights and tensors saved for backward share the StorageImpl and are all recognised. The logical size
// stays while the pointer is null, so views of a released parameter can still be made.
//
// The memory can be read within an operator on the parameter, and in a scope that holds it (ParameterReaders), at every
// stage. Any other read (data_ptr(), accessor(), DLPack, torch::save) throws a c10::Error with the parameter's name,
// also while the unit happens to be gathered (docs/decisions/0084). Local.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <c10/core/Storage.h>

#include "zero/engine/gather/gathered_unit.h"

namespace at {
class Tensor;
class TensorBase;
}  // namespace at

namespace zero {

// Makes reads of a storage throw `text`, or allows them again. libtorch has no public function that allows them.
void refuse_reads(c10::StorageImpl& storage, const std::string& text);
void allow_reads(c10::StorageImpl& storage);

// The owner of attached parameters, which is asked before an operator uses one.
class ParameterOwner {
 public:
  virtual ~ParameterOwner() = default;
  virtual GatheredUnit use(int param, bool writes) = 0;
  // Called after an operator that writes. `held` is the result of use(). The default does nothing.
  virtual void wrote(int /*param*/, const GatheredUnit& /*held*/) {}
  // Returns the rows of `param` that an operator is about to write on any rank. `rows`: the row numbers on this rank.
  // Collective if other ranks hold the same weights.
  virtual at::Tensor rows_of_all_ranks(int param, const at::Tensor& rows);
  // Called when autograd has stored a whole gradient in the parameter's .grad.
  virtual void take_gradient(int param) = 0;
};

// The readers of a parameter's memory: operators that run, and open scopes. Thread-safe.
class ParameterReaders {
 public:
  explicit ParameterReaders(c10::StorageImpl& storage) : storage_(storage) {}

  void add();
  void remove() noexcept;
  // A gathered() scope is a reader that also lets values out by reference.
  void add_scope();
  void remove_scope() noexcept;
  bool in_scope() const { return num_scopes_.load(std::memory_order_relaxed) > 0; }
  // Points the storage to `data`. Reads are refused while there are no readers or no data.
  void point_to(c10::DataPtr data);

 private:
  void update_refusal() noexcept;

  c10::StorageImpl& storage_;
  std::mutex mutex_;
  int num_ = 0;
  std::atomic<int> num_scopes_{0};
};

struct ParameterHandle {
  ParameterHandle(ParameterOwner* its_owner, int index, c10::StorageImpl& storage)
      : owner(its_owner), param(index), readers(storage) {}
  ParameterOwner* owner;
  int param;
  ParameterReaders readers;
};

class ParameterStorage {
 public:
  ParameterStorage(ParameterOwner& owner, int param, const std::string& name, std::size_t bytes,
                   c10::Device device = c10::DeviceType::CPU);
  ParameterStorage(ParameterStorage&&) noexcept = default;

  void point_to(std::byte* data);
  // Makes the storage ordinary again: it owns `data`.
  void give_back(c10::DataPtr data);
  // Gives up this reference to the storage: from now on only tensors hold it.
  void let_go() { storage_ = c10::Storage(); }
  // Leaves the storage without memory and owner. Reading it throws a c10::Error with `name`.
  void leave_empty(const std::string& name);

  const c10::Storage& storage() const { return storage_; }
  ParameterReaders& readers() const { return handle_->readers; }
  static ParameterHandle* of(const at::TensorBase& tensor);

 private:
  c10::Storage storage_;
  std::unique_ptr<ParameterHandle> handle_;
};

}  // namespace zero
