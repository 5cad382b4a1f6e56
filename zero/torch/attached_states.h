// AttachedStates: parameters, optimizer states and gradients of an attached model, by parameter name.
//
//   states.full("fc1.weight", "exp_avg")          // between steps: the whole moment, on every rank
//   states.shard("fc1.weight", "exp_avg")         // the elements of it that this rank owns
//   states.gradient("fc1.weight")                 // between the last backward pass of a step and its step()
//
// What comes back are copies, on the CPU, in fp32. Collective, all of it. Throws ConfigError for a name or a state that
// is not there, and at a time when the value is not whole; IoError of a disk.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "zero/engine/engine.h"
#include "zero/torch/attached_parameters.h"
#include "zero/torch/module/state_shard.h"
#include "zero/torch/rank_extras.h"

namespace zero {

class AttachedStates {
 public:
  // All outlive it.
  AttachedStates(Engine& engine, const AttachedParameters& parameters, const NamedBuffers& buffers)
      : engine_(engine), parameters_(parameters), buffers_(buffers) {}

  using ParameterVisit = std::function<void(const std::string& name, const torch::Tensor& tensor)>;
  // As Attachment's.
  void for_each_parameter(const ParameterVisit& visit, bool full_precision);
  void export_weights(const std::filesystem::path& path, bool full_precision);

  std::vector<std::string> names_of(const std::string& name) const;
  StateShard shard(const std::string& name, const std::string& state);
  torch::Tensor full(const std::string& name, const std::string& state);

  torch::Tensor gradient(const std::string& name);
  std::map<std::string, double> gradient_norms();

 private:
  int state_of(int param, const std::string& state) const;
  // `to` gets elements [first, first + to.numel()) of the unit's flat range, which this rank owns.
  void read(int unit, int state, std::int64_t first, torch::Tensor& to);

  Engine& engine_;
  const AttachedParameters& parameters_;
  const NamedBuffers& buffers_;
};

}  // namespace zero
