// Two models in one program, each with an engine of its own.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// Returns the mean of the generated samples. The mean of the data is 3.
double train_gan(zero::World& world) {
  torch::nn::Sequential generator(torch::nn::Linear(2, 16), torch::nn::ReLU(), torch::nn::Linear(16, 1));
  torch::nn::Sequential critic(torch::nn::Linear(1, 16), torch::nn::ReLU(), torch::nn::Linear(16, 1));
  const zero::AttachOptions options{.stage = 3, .optimizer = zero::AdamW{.lr = 1e-2, .beta1 = 0.5}};
  auto generator_engine = zero::attach(*generator, world, options);
  auto critic_engine = zero::attach(*critic, world, options);
  auto random = torch::make_generator<at::CPUGeneratorImpl>(world.rank() + 1);
  const auto ones = torch::ones({32, 1}), zeros = torch::zeros({32, 1});

  double mean = 0;
  for (int step = 0; step < 150; ++step) {
    const auto real = torch::randn({32, 1}, random) * 0.5 + 3.0;
    const auto fake = generator->forward(torch::randn({32, 2}, random));
    const auto loss = torch::binary_cross_entropy_with_logits(critic->forward(real), ones) +
                      torch::binary_cross_entropy_with_logits(critic->forward(fake.detach()), zeros);
    loss.backward();
    critic_engine.step();

    {
      const auto frozen = critic_engine.frozen();  // gradients pass through the critic, which keeps none
      torch::binary_cross_entropy_with_logits(critic->forward(fake), ones).backward();
    }
    generator_engine.step();
    mean = fake.mean().item<double>();
  }
  return mean;
}

}  // namespace examples
