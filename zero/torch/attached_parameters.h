// AttachedParameters: the tensors of an attached model, and where their memory is.
//
//   AttachedParameters parameters(parameters_of(tensors, dtype), units, owner);
//   parameters.take_over(unit);             // from now on operators on the unit's parameters ask `owner` first
//   parameters.point_to(unit, data);        // gathered; null: released
//   parameters.give_back(unit, data);       // ordinary tensors again, with values of their own
//
// A tensor's name, shape, identity and autograd history stay from beginning to end. What was taken over and not given
// back when this goes is left empty: reading it throws. Local.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zero/device/device.h"
#include "zero/plan/units/unit.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/seam/gradient_watch.h"
#include "zero/torch/seam/parameter_storage.h"

namespace torch::autograd {
struct Node;
}

namespace zero {

class AttachedParameters {
 public:
  // `units`: of the parameters that were found. Changes nothing of the tensors.
  // `memory`: of the device on which its units lie; outlives it.
  AttachedParameters(ModuleParameters found, std::vector<Unit> units, ParameterOwner& owner, Device& memory);
  ~AttachedParameters();
  AttachedParameters(const AttachedParameters&) = delete;
  AttachedParameters& operator=(const AttachedParameters&) = delete;

  const std::vector<ParamSpec>& specs() const { return specs_; }
  const std::vector<Unit>& units() const { return units_; }
  const ParamSpec& spec(int param) const { return specs_[static_cast<std::size_t>(param)]; }
  const torch::Tensor& tensor(int param) const { return tensors_[static_cast<std::size_t>(param)]; }
  const SliceAddress& address(int param) const { return addresses_[static_cast<std::size_t>(param)]; }
  const Slice& slice(int param) const;
  // Parameters by name, ascending.
  std::vector<int> in_name_order() const;
  // Throws ConfigError under `key` for a name that no parameter has; a tied one is found under any of its names.
  int find(const std::string& name, std::string_view key) const;
  // The units that hold these tensors. Throws ConfigError, by the name `of`, for one that is none of the parameters.
  std::vector<int> units_of(std::span<const torch::Tensor> tensors, const std::string& of) const;

  void take_over(const Unit& unit);
  void point_to(const Unit& unit, std::byte* data);
  void give_back(const Unit& unit, const std::byte* data);

  // A hash of a parameter's bytes in `unit`, its gathered unit.
  std::uint64_t hash_of(int param, const std::byte* unit) const;

  // The gradient that autograd has put into .grad, in the parameter's dtype and contiguous; .grad is empty again.
  // Undefined where there is none.
  torch::Tensor take_gradient(int param);

  // zero_grad() was called on a parameter since take_zeroed().
  bool any_zeroed() const { return watch_->zeroed.load(std::memory_order_relaxed); }
  // By parameter: those on which it was called. All, if it was called on every parameter that can be watched and trained.
  std::vector<bool> take_zeroed();
  void forget_gradient_reads() const;
  // No gradient of the running step waits any more.
  void gradients_are_gone() { watch_->gradients_wait = false; }

  // Throws ConfigError naming the first parameter that is not ours any more.
  void require_unchanged() const;
  // Throws ConfigError with the name of a parameter whose .grad() is defined, or was read since the last call while
  // gradients waited.
  void refuse_gradients_elsewhere() const;
  // The same at the end, as a warning.
  void warn_of_gradient_reads() const;

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;  // kept alive: the graph holds it weakly
    std::uintptr_t key = 0;
  };
  void install_hook(std::size_t param);
  void replace(std::size_t param, bool keyed);

  ParameterOwner& owner_;
  Device& memory_;
  std::vector<torch::Tensor> tensors_;  // by parameter: the model's own
  std::vector<ParamSpec> specs_;
  std::vector<Unit> units_;
  std::vector<SliceAddress> addresses_;
  std::vector<ParameterStorage> storages_;
  std::vector<Hook> hooks_;
  std::shared_ptr<GradientWatch> watch_ = std::make_shared<GradientWatch>();
};

}  // namespace zero
