// An exponential moving average of the weights. Each rank averages its own elements, so no rank holds a second model.
#include <map>

#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

class WeightAverage {
 public:
  explicit WeightAverage(double decay) : decay_(decay) {}

  // After each step, on every rank.
  void update(zero::Engine& engine) {
    for (const zero::ParamSpec& parameter : engine.parameters()) {
      const zero::StateShard now = engine.state_shard(parameter.name);
      const auto [entry, first] = shards_.try_emplace(parameter.name, now.values);
      if (!first) entry->second.lerp_(now.values, 1 - decay_);
    }
  }
  // The average of this rank's elements of a parameter, in one dimension.
  const torch::Tensor& shard(const std::string& parameter) const { return shards_.at(parameter); }

 private:
  double decay_;
  std::map<std::string, torch::Tensor> shards_;
};

}  // namespace examples
