// A loop with a schedule that can be killed: it saves regularly, and continues from the newest checkpoint.
#include <zero/checkpoints.h>
#include <zero/optimizers.h>
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

constexpr zero::LrSchedule kSchedule{.lr = 2e-2, .min_lr = 2e-3, .warmup = 5, .steps = 60};  // a cosine

// Returns the losses of the steps that this call took. `folder`: on a file system that all ranks see.
std::vector<double> train_or_go_on(zero::World& world, const std::filesystem::path& folder) {
  torch::nn::Sequential model(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{}, .clip = 1.0});
  const zero::CheckpointFolder checkpoints(folder);
  const auto found = checkpoints.list();  // the newest first
  std::int64_t step = 0;
  if (!found.empty()) {
    const zero::Manifest saved = engine.load(found.front().path).manifest;
    step = saved.steps + saved.skipped;
  }
  std::vector<double> losses;
  for (; step < kSchedule.steps; ++step) {
    auto random = torch::make_generator<at::CPUGeneratorImpl>(step * world.size() + world.rank());  // this step's data
    const auto x = torch::randn({16, 4}, random);
    const auto loss = torch::mse_loss(model->forward(x), x.sum(1, /*keepdim=*/true));
    loss.backward();
    engine.step(zero::lr_at(kSchedule, step));
    losses.push_back(loss.item<double>());
    if ((step + 1) % 20 != 0 && step + 1 != kSchedule.steps) continue;
    engine.save(checkpoints.path_of(step + 1));
    if (world.rank() == 0) checkpoints.keep(2, step + 1);  // the new and the previous one
  }
  return losses;
}

}  // namespace examples
