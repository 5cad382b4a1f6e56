// A GAN on eight points of a circle: two modules, two engines, and one checkpoint of both. The modules need no change.
#pragma once

#include <cmath>
#include <filesystem>
#include <functional>

#include <zero/zero.h>

#include <torch/torch.h>

namespace gan {

constexpr int kBatch = 64, kNoise = 4;

inline torch::nn::Sequential make_generator_net() {
  return torch::nn::Sequential(torch::nn::Linear(kNoise, 32), torch::nn::Tanh(), torch::nn::Linear(32, 32),
                               torch::nn::Tanh(), torch::nn::Linear(32, 2));
}
inline torch::nn::Sequential make_critic_net() {
  return torch::nn::Sequential(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 32),
                               torch::nn::Tanh(), torch::nn::Linear(32, 1));
}

// The batch of a step and a rank. It has its own random numbers, so a resumed run draws the same batch.
struct Batch {
  torch::Tensor real, noise;
};
inline Batch batch_of(std::int64_t step, int rank) {
  auto random = torch::make_generator<at::CPUGeneratorImpl>(1000 * step + rank);
  const auto angle = torch::randint(0, 8, {kBatch}, random).to(torch::kFloat) * (M_PI / 4);
  const auto centres = torch::stack({torch::cos(angle), torch::sin(angle)}, 1);
  return {centres + 0.05 * torch::randn({kBatch, 2}, random), torch::randn({kBatch, kNoise}, random)};
}

inline torch::Tensor loss_of(const torch::Tensor& verdict, double wanted) {
  return torch::binary_cross_entropy_with_logits(verdict, torch::full_like(verdict, wanted));
}

struct Losses {
  double critic = 0, generator = 0;
};
using OnStep = std::function<void(std::int64_t step, const Losses& losses)>;

struct Options {
  std::int64_t steps = 1000;
  std::int64_t save_every = 50;
  zero::AttachOptions attach{.stage = 3, .optimizer = zero::AdamW{.lr = 2e-3, .beta1 = 0.5, .weight_decay = 0}};
};

// Trains both modules, which are whole afterwards. Continues from the checkpoint at `path` if there is one.
inline void train(zero::World& world, torch::nn::Sequential& generator, torch::nn::Sequential& critic,
                  const std::filesystem::path& path, const Options& options, const OnStep& on_step) {
  auto of_generator = zero::attach(*generator, world, options.attach);
  auto of_critic = zero::attach(*critic, world, options.attach);
  std::int64_t step = 0;
  if (std::filesystem::exists(path)) step = zero::load_all(path, {&of_generator, &of_critic}).front().manifest.steps;
  for (; step < options.steps; ++step) {
    const auto [real, noise] = batch_of(step, world.rank());
    const auto fake = generator->forward(noise);

    critic->zero_grad();
    const auto on_real = loss_of(critic->forward(real), 1), on_fake = loss_of(critic->forward(fake.detach()), 0);
    (on_real + on_fake).backward();
    of_critic.step();

    generator->zero_grad();
    const auto loss = loss_of(critic->forward(fake), 1);
    loss.backward();
    of_generator.step();
    critic->zero_grad();  // drops gradients of the generator's pass before a save

    on_step(step, {(on_real + on_fake).item<double>(), loss.item<double>()});
    if ((step + 1) % options.save_every == 0) zero::save_all(path, {&of_generator, &of_critic});
  }
}

// The mean distance of points to the nearest of the eight points.
inline double distance_from_circle(const torch::Tensor& points) {
  const auto angle = torch::arange(8, torch::kFloat) * (M_PI / 4);
  const auto centres = torch::stack({torch::cos(angle), torch::sin(angle)}, 1);
  return std::get<0>(torch::cdist(points, centres).min(1)).mean().item<double>();
}

}  // namespace gan
