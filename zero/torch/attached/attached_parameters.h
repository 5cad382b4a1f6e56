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

#include <span>
#include <string>
#include <vector>

#include "zero/device/device.h"
#include "zero/plan/units/unit.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/seam/parameter_storage.h"

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
  const std::vector<torch::Tensor>& tensors() const { return tensors_; }
  const torch::Tensor& tensor(int param) const { return tensors_[static_cast<std::size_t>(param)]; }
  const SliceAddress& address(int param) const { return addresses_[static_cast<std::size_t>(param)]; }
  const Slice& slice(int param) const;
  // Finds a parameter by any of its names. Throws ConfigError under `key` if no parameter has that name.
  int find(const std::string& name, std::string_view key) const;
  // Returns the units that hold these tensors. Throws ConfigError with the name `of` if a tensor is not a parameter.
  std::vector<int> units_of(std::span<const torch::Tensor> tensors, const std::string& of) const;

  void take_over(const Unit& unit);
  void point_to(const Unit& unit, std::byte* data);
  void give_back(const Unit& unit, const std::byte* data);

  // The readers of a parameter's memory. Its unit must be gathered while a scope is open.
  ParameterReaders& readers(int param) const { return storages_[static_cast<std::size_t>(param)].readers(); }

  // Returns a hash of a parameter's bytes in `unit`, its gathered unit.
  std::uint64_t hash_of(int param, const std::byte* unit) const;

  // Throws ConfigError with the name of the first parameter whose storage was replaced.
  void require_unchanged() const;

 private:
  void replace(std::size_t param, bool keyed);

  ParameterOwner& owner_;
  Device& memory_;
  std::vector<torch::Tensor> tensors_;  // the model's own tensors, by parameter
  std::vector<ParamSpec> specs_;
  std::vector<Unit> units_;
  std::vector<SliceAddress> addresses_;
  std::vector<ParameterStorage> storages_;
};

}  // namespace zero
