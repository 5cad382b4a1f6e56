// examples/gan: a killed and resumed run ends with the bits of an undisturbed run. Training agrees with plain libtorch.
#include <csignal>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "examples/gan/gan.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::Values;

gan::Options short_run(int stage) {
  gan::Options options{.steps = 40, .save_every = 10};
  options.attach.stage = stage;
  return options;
}

// Weights of both modules after a run of two ranks.
Values gan_weights(const std::filesystem::path& path, const gan::Options& options, const gan::OnStep& on_step) {
  std::vector<torch::nn::Sequential> nets;
  for (int rank = 0; rank < 2; ++rank) {
    torch::manual_seed(5 + rank);
    nets.push_back(gan::make_generator_net());
    nets.push_back(gan::make_critic_net());
  }
  tests::on_every_rank(2, [&](World& ranks) {
    const auto first = static_cast<std::size_t>(2 * ranks.rank());
    gan::train(
        ranks, nets[first], nets[first + 1], path, options,
        ranks.rank() == 0 ? on_step : [](std::int64_t, const gan::Losses&) {});
  });
  Values weights;
  for (std::size_t net = 0; net < 2; ++net)
    for (const torch::Tensor& parameter : nets[net]->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

void kill_this_process() {
  ::raise(SIGKILL);
}

// The process of a death test runs the test from its beginning. The variable gives it the folder of its parent.
std::filesystem::path shared_folder(const TemporaryFolder& own) {
  ::setenv("ZERO_TEST_GAN_FOLDER", own.path().c_str(), /*overwrite=*/0);
  return std::getenv("ZERO_TEST_GAN_FOLDER");
}

TEST(GanExample, KilledRunEndsWithSameBits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder own;
  const std::filesystem::path folder = shared_folder(own);
  const auto killed_in_a_step = [&] {
    gan_weights(folder / "step", short_run(3), [](std::int64_t step, const gan::Losses&) {
      if (step == 14) kill_this_process();
    });
  };
  EXPECT_EXIT(killed_in_a_step(), testing::KilledBySignal(SIGKILL), "");
  const auto killed_in_a_save = [&] {
    std::thread killer;
    gan_weights(folder / "save", short_run(3), [&](std::int64_t step, const gan::Losses&) {
      if (step == 22) kill_this_process();  // in case the save ended before the thread noticed it
      if (step != 19) return;
      killer = std::thread([&] {
        while (!std::filesystem::exists(folder / "save.tmp/engine-0")) std::this_thread::yield();
        kill_this_process();
      });
    });
  };
  EXPECT_EXIT(killed_in_a_save(), testing::KilledBySignal(SIGKILL), "");
  ::unsetenv("ZERO_TEST_GAN_FOLDER");

  const auto ignore = [](std::int64_t, const gan::Losses&) {};
  const Values undisturbed = gan_weights(folder / "undisturbed", short_run(3), ignore);
  for (const char* name : {"step", "save"}) {
    std::int64_t first = -1;
    const Values resumed = gan_weights(folder / name, short_run(1), [&](std::int64_t step, const gan::Losses&) {
      if (first < 0) first = step;
    });
    EXPECT_GE(first, 10) << name;
    EXPECT_TRUE(tests::same_bits(resumed, undisturbed)) << name;
  }
}

// The same loop with libtorch's optimizers, on the batches of both ranks.
TEST(GanExample, IsThatOfPlainLibtorch) {
  const TemporaryFolder folder;
  std::vector<gan::Losses> losses, plain_losses;
  const gan::Options options = short_run(3);
  const Values weights = gan_weights(folder.path() / "checkpoint", options,
                                     [&](std::int64_t, const gan::Losses& step) { losses.push_back(step); });
  torch::manual_seed(5);
  torch::nn::Sequential generator = gan::make_generator_net(), critic = gan::make_critic_net();
  const auto like_ours = torch::optim::AdamWOptions(2e-3).betas({0.5, 0.999}).weight_decay(0);
  torch::optim::AdamW of_generator(generator->parameters(), like_ours), of_critic(critic->parameters(), like_ours);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    std::vector<torch::Tensor> fakes;
    gan::Losses first;
    of_critic.zero_grad();
    for (int rank = 0; rank < 2; ++rank) {
      const auto [real, noise] = gan::batch_of(step, rank);
      fakes.push_back(generator->forward(noise));
      const auto loss =
          gan::loss_of(critic->forward(real), 1) + gan::loss_of(critic->forward(fakes.back().detach()), 0);
      (loss / 2).backward();
      if (rank == 0) first.critic = loss.item<double>();
    }
    of_critic.step();
    of_generator.zero_grad();
    for (int rank = 0; rank < 2; ++rank) {
      const auto loss = gan::loss_of(critic->forward(fakes[static_cast<std::size_t>(rank)]), 1);
      (loss / 2).backward();
      if (rank == 0) first.generator = loss.item<double>();
    }
    of_generator.step();
    plain_losses.push_back(first);
  }
  ASSERT_EQ(losses.size(), plain_losses.size());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step].critic, plain_losses[step].critic, 1e-6) << step;
    EXPECT_NEAR(losses[step].generator, plain_losses[step].generator, 1e-6) << step;
  }
  std::size_t place = 0;
  for (const torch::nn::Sequential& net : {generator, critic})
    for (const torch::Tensor& parameter : net->parameters())
      EXPECT_LE((weights.at(place++) - parameter).abs().max().item<double>(), 1e-6) << place - 1;
}

TEST(GanExample, FindsTheCircle) {
  const TemporaryFolder folder;
  torch::manual_seed(5);
  torch::nn::Sequential generator = gan::make_generator_net(), critic = gan::make_critic_net();
  const auto distance = [&] {
    const torch::NoGradGuard no_gradients;
    return gan::distance_from_circle(generator->forward(gan::batch_of(-1, 0).noise));
  };
  const double before = distance();
  tests::on_every_rank(1, [&](World& ranks) {
    gan::train(ranks, generator, critic, folder.path() / "checkpoint", {}, [](std::int64_t, const gan::Losses&) {});
  });
  EXPECT_LT(distance(), 0.5 * before);
}

}  // namespace
}  // namespace zero
