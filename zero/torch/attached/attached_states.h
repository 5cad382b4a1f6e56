// AttachedStates: parameters, optimizer states and gradients of an attached model, by parameter name.
//
//   states.full("fc1.weight", "exp_avg")          // between steps: the whole moment, on every rank
//   states.shard("fc1.weight", "exp_avg")         // the elements of the moment that this rank owns
//   states.gradient("fc1.weight")                 // between the last backward pass of a step and its step()
//
// All results are copies, on the CPU, in fp32. All functions are Collective. They throw ConfigError for an unknown name
// or state, and at a time when the value is not complete; IoError if a disk fails.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "zero/engine/rank_engine.h"
#include "zero/torch/attached/attached_parameters.h"
#include "zero/torch/attached/rank_extras.h"
#include "zero/torch/module/state_shard.h"

namespace zero {

class AttachedStates {
 public:
  // All arguments must outlive the object.
  AttachedStates(RankEngine& engine, const AttachedParameters& parameters, const NamedBuffers& buffers)
      : engine_(engine), parameters_(parameters), buffers_(buffers) {}

  using ParameterVisit = std::function<void(const std::string& name, const torch::Tensor& tensor)>;
  // See Engine's functions of the same names.
  void for_each_parameter(const ParameterVisit& visit, bool full_precision);
  std::size_t visit_some(std::size_t first, const ParameterVisit& visit, bool full_precision);
  void export_weights(const std::filesystem::path& path, bool full_precision, const std::set<std::string>& left_out);

  std::vector<std::string> names_of(const std::string& name) const;
  StateShard shard(const std::string& name, const std::string& state);
  torch::Tensor full(const std::string& name, const std::string& state);

  torch::Tensor gradient(const std::string& name);
  std::map<std::string, double> gradient_norms();

 private:
  int state_of(int param, const std::string& state) const;
  // Reads elements [first, first + to.numel()) of the unit's flat range into `to`. This rank owns them.
  void read(int unit, int state, std::int64_t first, torch::Tensor& to);

  RankEngine& engine_;
  const AttachedParameters& parameters_;
  const NamedBuffers& buffers_;
};

}  // namespace zero
