// Trains a GAN, and continues from the last checkpoint of a killed run.
//
//   zero launch --nproc-per-node 2 -- ./gan run/checkpoint
#include <exception>
#include <iostream>

#include "gan.h"

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: gan CHECKPOINT\n";
    return 2;
  }
  auto world = zero::World::from_environment();
  torch::manual_seed(world.rank());
  auto generator = gan::make_generator_net(), critic = gan::make_critic_net();
  gan::train(world, generator, critic, argv[1], {}, [&](std::int64_t step, const gan::Losses& losses) {
    if (world.rank() == 0 && (step + 1) % 50 == 0)
      std::cout << "step " << step + 1 << ": critic " << losses.critic << ", generator " << losses.generator
                << std::endl;
  });
  const torch::NoGradGuard no_gradients;
  const double distance = gan::distance_from_circle(generator->forward(torch::randn({512, gan::kNoise})));
  if (world.rank() == 0) std::cout << "mean distance from the nearest of the eight points: " << distance << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
