// Means over ranks, of values that each rank has for itself: a loss on its own data, or BatchNorm's running statistics.
#include <zero/collectives.h>
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// The mean over ranks, in fp32, the same bits on each. All ranks call it, between steps.
torch::Tensor mean_over_ranks(zero::World& world, const torch::Tensor& mine) {
  const torch::Tensor sum = torch::empty(mine.sizes(), torch::kFloat32).copy_(mine.detach());
  zero::all_reduce(world.communicator(), {sum.data_ptr<float>(), static_cast<std::size_t>(sum.numel())}, {});
  return sum / world.size();
}

// Gives all ranks the same running statistics: before an evaluation, or before weights are exported.
void average_buffers(zero::World& world, torch::nn::Module& model) {
  const torch::NoGradGuard no_gradients;
  for (torch::Tensor& buffer : model.buffers())
    if (buffer.is_floating_point()) buffer.copy_(mean_over_ranks(world, buffer));
}

// The mean over all samples of all ranks. `sum`: over this rank's samples. Ranks may have different numbers of samples.
double mean_over_samples(zero::World& world, double sum, std::int64_t samples) {
  const torch::Tensor means = mean_over_ranks(world, torch::tensor({sum, static_cast<double>(samples)}));
  return (means[0] / means[1]).item<double>();
}

}  // namespace examples
