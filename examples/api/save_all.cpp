// Two engines in one checkpoint of the same moment, and a loop that continues from it.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// A teacher learns a sum, and a student learns from the teacher. Returns the steps that this call took.
std::int64_t train_two_or_go_on(zero::World& world, const std::filesystem::path& path, std::int64_t steps) {
  torch::nn::Linear teacher(4, 1), student(4, 1);
  const zero::AttachOptions options{.stage = 3, .optimizer = zero::AdamW{.lr = 1e-2}};
  auto of_teacher = zero::attach(*teacher, world, options), of_student = zero::attach(*student, world, options);
  std::int64_t step = 0;
  if (std::filesystem::exists(path)) step = zero::load_all(path, {&of_teacher, &of_student}).front().manifest.steps;
  const std::int64_t first = step;
  for (; step < steps; ++step) {
    auto random = torch::make_generator<at::CPUGeneratorImpl>(step * world.size() + world.rank());  // this step's data
    const auto x = torch::randn({16, 4}, random);
    const auto taught = teacher->forward(x);
    torch::mse_loss(taught, x.sum(1, /*keepdim=*/true)).backward();
    of_teacher.step();
    torch::mse_loss(student->forward(x), taught.detach()).backward();
    of_student.step();
    if ((step + 1) % 20 == 0) zero::save_all(path, {&of_teacher, &of_student});
  }
  return step - first;
}

}  // namespace examples
