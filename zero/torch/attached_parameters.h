// AttachedParameters: the tensors of an attached model, and the addresses of their memory.
//
//   AttachedParameters parameters(parameters_of(tensors, dtype), units, owner, memory);
//   parameters.take_over(unit);             // from now on operators on the unit's parameters ask `owner` first
//   parameters.point_to(unit, data);        // gathered; null: released
//   parameters.give_back(unit, data);       // ordinary tensors again, with memory of their own
//
// A tensor's name, shape, identity and autograd history never change. The destructor leaves a parameter empty if it was
// taken over and not given back: reading it throws. Local.
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
  // Changes nothing of the tensors. `units`: the units of the parameters in `found`. `memory`: the device that holds
  // the units; it must outlive the object.
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
  // Returns the parameters in ascending order of their names.
  std::vector<int> in_name_order() const;
  // Finds a parameter by any of its names. Throws ConfigError under `key` if no parameter has that name.
  int find(const std::string& name, std::string_view key) const;
  // Returns the units that hold these tensors. Throws ConfigError with the name `of` if a tensor is not a parameter.
  std::vector<int> units_of(std::span<const torch::Tensor> tensors, const std::string& of) const;

  void take_over(const Unit& unit);
  void point_to(const Unit& unit, std::byte* data);
  void give_back(const Unit& unit, const std::byte* data);

  // Begin and end a scope in which any code may read and write the memory of the unit's parameters. The unit must be
  // gathered.
  void begin_scope(int unit) const;
  void end_scope(int unit) const;

  // Returns a hash of a parameter's bytes in `unit`, its gathered unit.
  std::uint64_t hash_of(int param, const std::byte* unit) const;

  // Takes the gradient that autograd has stored in .grad, in the parameter's dtype and contiguous. .grad is empty
  // afterwards. The result is undefined if there is no gradient.
  torch::Tensor take_gradient(int param);

  // True if zero_grad() was called on a parameter since take_zeroed().
  bool any_zeroed() const { return watch_->zeroed.load(std::memory_order_relaxed); }
  // Returns, by parameter, whether zero_grad() was called on it. All are true if it was called on every parameter that
  // can be watched and trained.
  std::vector<bool> take_zeroed();
  // Record that the engine has taken a gradient of `param`, that the gradients of some parameters were dropped, or that
  // the step is over.
  void gradient_has_come(int param) const { zero::gradient_has_come(tensor(param)); }
  void gradients_are_gone(const std::vector<bool>& params) const;
  void gradients_are_gone() const;

  // Throws ConfigError with the name of the first parameter whose storage was replaced.
  void require_unchanged() const;
  // Throws ConfigError with the name of a parameter whose .grad() is defined, or was read since the last call although
  // its gradient had gone to the engine.
  void refuse_gradients_elsewhere() const;
  // Makes the same check at the end, as a warning.
  void warn_of_gradient_reads() const;

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;  // owned here, because the graph holds it weakly
    std::uintptr_t key = 0;
  };
  void install_hook(std::size_t param);
  void replace(std::size_t param, bool keyed);

  ParameterOwner& owner_;
  Device& memory_;
  std::vector<torch::Tensor> tensors_;  // the model's own tensors, by parameter
  std::vector<ParamSpec> specs_;
  std::vector<Unit> units_;
  std::vector<SliceAddress> addresses_;
  std::vector<ParameterStorage> storages_;
  std::vector<Hook> hooks_;
  std::shared_ptr<GradientWatch> watch_ = std::make_shared<GradientWatch>();
};

}  // namespace zero
