// fp16: each loss is scaled before the backward pass. The same lines train in fp32 and bf16, which have no loss scale.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

std::vector<double> train_in_half(zero::World& world) {
  auto model = torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  auto engine =
      zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 2e-2}, .dtype = zero::DType::kFloat16});
  auto random = torch::make_generator<at::CPUGeneratorImpl>(world.rank() + 1);

  std::vector<double> losses;
  for (int step = 0; step < 30; ++step) {
    const auto x = torch::randn({16, 4}, random);
    const auto y = model->forward(x.to(torch::kHalf)).to(torch::kFloat);
    const auto loss = torch::mse_loss(y, x.sum(1, /*keepdim=*/true));
    engine.scaled(loss).backward();
    const zero::StepReport report = engine.step();
    if (!report.skipped) losses.push_back(loss.item<double>());  // skipped: the scale was too high and has been halved
  }
  return losses;
}

}  // namespace examples
