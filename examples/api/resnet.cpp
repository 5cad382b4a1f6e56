// A residual network in bf16. Parameters and statistics of BatchNorm stay in fp32 automatically; the caller converts
// inputs.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

struct ResidualBlockImpl : torch::nn::Module {
  explicit ResidualBlockImpl(std::int64_t channels)
      : conv(torch::nn::Conv2dOptions(channels, channels, 3).padding(1).bias(false)), norm(channels) {
    register_module("conv", conv);
    register_module("norm", norm);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + torch::relu(norm(conv(x))); }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
};
TORCH_MODULE(ResidualBlock);

struct ResNet : torch::nn::Module {
  ResNet() : stem(torch::nn::Conv2dOptions(3, 8, 3).padding(1)), head(8, 2) {
    register_module("stem", stem);
    for (int i = 0; i < 3; ++i) blocks->push_back(ResidualBlock(8));
    register_module("blocks", blocks);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& images) { return head(blocks->forward(stem(images)).mean({2, 3})); }
  torch::nn::Conv2d stem;
  torch::nn::Sequential blocks;
  torch::nn::Linear head;
};

std::vector<double> train_resnet(zero::World& world) {
  auto model = std::make_shared<ResNet>();
  auto engine = zero::attach(
      *model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 1e-2}, .clip = 1.0, .dtype = zero::DType::kBFloat16});
  auto random = torch::make_generator<at::CPUGeneratorImpl>(world.rank() + 1);

  std::vector<double> losses;
  for (int step = 0; step < 12; ++step) {
    const auto labels = torch::arange(16).remainder(2);  // bright and dark pictures
    const auto images = torch::randn({16, 3, 8, 8}, random) + labels.reshape({16, 1, 1, 1}) * 2.0 - 1.0;
    const auto logits = model->forward(images.to(torch::kBFloat16));
    const auto loss = torch::cross_entropy_loss(logits.to(torch::kFloat32), labels);
    loss.backward();
    engine.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace examples
