// `zero bench step`: a training step of zero.cpp and the same step of plain libtorch, in one process.
//
// Both run forward and backward of the same module on the same random batch (one micro-batch, for any `accumulate`
// or `leaves`).
// Plain libtorch then clips with clip_grad_norm_, and updates with its fused AdamW.
#include <iostream>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/utils/clip_grad.h>

#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"
#include "zero/base/text/bytes.h"
#include "zero/memory/account/host_memory.h"
#include "zero/torch/activations/large_blocks.h"

#include "app/cli/torch_verbs/job.h"
#include "app/cli/torch_verbs/verbs.h"
#include "app/config/rules/fit_to_world.h"
#include "app/report/report.h"
#include "app/train/machine/machine_peak.h"
#include "app/train/tasks/model_kind.h"

namespace zero::cli {
namespace {

struct StepTimes {
  std::vector<double> forward_backward;
  std::vector<double> total;
};

Batch random_batch(const SampleShape& shape, std::int64_t samples, std::int64_t vocab) {
  std::mt19937_64 random(1337);
  const auto fill_classes = [&](std::vector<std::int64_t>& values, std::int64_t classes) {
    for (auto& value : values) value = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(classes));
  };
  const auto fill_numbers = [&](std::vector<float>& values) {
    std::normal_distribution<float> normal;
    for (auto& value : values) value = normal(random);
  };
  Batch batch;
  if (shape.context > 0) {
    fill_classes(batch.input.reset<std::int64_t>({samples, shape.context}), vocab);
    if (shape.vocab > 0)
      fill_classes(batch.target.reset<std::int64_t>({samples}), shape.classes);
    else
      fill_classes(batch.target.reset<std::int64_t>({samples, shape.context}), vocab);
    return batch;
  }
  fill_numbers(batch.input.reset<float>({samples, shape.features}));
  if (shape.classes > 0) {
    fill_classes(batch.target.reset<std::int64_t>({samples}), shape.classes);
  } else {
    fill_numbers(batch.target.reset<float>({samples, 1}));
  }
  return batch;
}

// Measures steps. `scaled` returns the loss of which backward() is called. `update` ends a step. median_step_seconds()
// leaves out the first steps, which warm up caches.
template <typename Scaled, typename Update>
StepTimes measure(Task& task, const Batch& batch, std::int64_t steps, Scaled scaled, Update update) {
  StepTimes times;
  for (std::int64_t i = 0; i < steps + static_cast<std::int64_t>(kWarmupSteps); ++i) {
    const double begin = monotonic_seconds();
    scaled(task.loss(batch)).backward();
    times.forward_backward.push_back(monotonic_seconds() - begin);
    update();
    times.total.push_back(monotonic_seconds() - begin);
  }
  return times;
}

// libtorch's fused AdamW, with one decay for all parameters.
class FusedAdamW {
 public:
  FusedAdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options)
      : parameters_(std::move(parameters)), options_(options) {
    for (const at::Tensor& parameter : parameters_) {
      first_.push_back(at::zeros_like(parameter));
      second_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }

  void step() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    for (const at::Tensor& count : steps_) count.add_(1);
    at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, options_.lr, options_.beta1, options_.beta2,
                      options_.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

 private:
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
  AdamWOptions options_;
};

StepTimes measure_libtorch(Task& task, const Batch& batch, std::int64_t steps, const AttachOptions& options) {
  const auto* adamw = std::get_if<AdamWOptions>(&options.optimizer);
  if (adamw == nullptr)
    throw ConfigError("optimizer.name", std::string(name_of(options.optimizer)),
                      "a step is compared with libtorch's fused AdamW", "use adamw");
  const auto parameters = task.module().parameters();
  std::vector<at::Tensor> first;
  for (const at::Tensor& parameter : parameters) first.push_back(parameter.detach().clone());
  FusedAdamW optimizer(parameters, *adamw);
  StepTimes times = measure(
      task, batch, steps, [](const at::Tensor& loss) { return loss; },
      [&] {
        if (options.clip > 0) torch::nn::utils::clip_grad_norm_(parameters, options.clip);
        optimizer.step();
      });
  // The steps of zero.cpp begin with the same weights. In fp16 the weights may no longer be finite.
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(first[i]);
  return times;
}

}  // namespace

int bench_step_verb(const BenchStepRequest& request) {
  keep_heap();
  keep_large_blocks();
  at::set_num_interop_threads(1);
  LoadedConfig loaded = request.loaded;
  fit_to_world(loaded, 1);
  loaded.config.train.accumulate = 1;
  loaded.config.train.leaves = 0;
  const Config& config = loaded.config;
  const AttachOptions options = attach_options(config, 1);
  at::set_num_threads(options.threads);
  World world = std::move(World::in_process(1).front());
  const SampleShape shape = planned_shape(config);
  ModelOptions model = model_options(config);
  model.init.clear();
  const auto task = make_task(model, shape, 1337);
  const Batch batch = random_batch(shape, config.train.batch,
                                   model.vocab > 0   ? model.vocab
                                   : shape.vocab > 0 ? shape.vocab
                                                     : shape.classes);
  // Attached and detached once: this turns a deferred module into an ordinary module.
  { const Engine built = attach(task->module(), world, {.stage = 0, .dtype = options.dtype}); }
  const StepTimes plain = measure_libtorch(*task, batch, request.steps, options);
  StepTimes ours;
  {
    Engine engine = attach(task->module(), world, options);
    ours = measure(
        *task, batch, request.steps, [&](const at::Tensor& loss) { return engine.scaled(loss); },
        [&] { engine.step(); });
    engine.abandon();
  }
  const double plain_step = median_step_seconds(plain.total), our_step = median_step_seconds(ours.total);
  const double flops = task->flops_per_sample() * static_cast<double>(config.train.batch);
  const double peak = probe_matmul_flops();
  if (request.json) {
    const nlohmann::ordered_json json{{"libtorch_step_s", plain_step},
                                      {"libtorch_compute_s", median_step_seconds(plain.forward_backward)},
                                      {"zero_step_s", our_step},
                                      {"zero_compute_s", median_step_seconds(ours.forward_backward)},
                                      {"ratio", our_step / plain_step},
                                      {"stage", options.stage},
                                      {"threads", options.threads},
                                      {"steps", request.steps},
                                      {"utilization", flops / our_step / peak}};
    std::cout << json.dump(1) << '\n';
    return 0;
  }
  const auto row = [](std::string_view name, double step, double compute) {
    return fmt::format("  {:<26} {:>9.2f} ms   forward and backward {:>9.2f} ms   rest {:>8.2f} ms\n", name, step * 1e3,
                       compute * 1e3, (step - compute) * 1e3);
  };
  std::cout << fmt::format("a step of {}, batch {}, {}, median of {}\n", model.name, config.train.batch,
                           format_count(options.threads, "thread"), request.steps)
            << row("libtorch, fused AdamW", plain_step, median_step_seconds(plain.forward_backward))
            << row(fmt::format("zero.cpp, stage {}", options.stage), our_step,
                   median_step_seconds(ours.forward_backward))
            << fmt::format("  zero.cpp / libtorch: {:.3f}   utilization: {:.2f} of {:.1f} GFLOP/s probed\n",
                           our_step / plain_step, flops / our_step / peak, peak * 1e-9);
  return 0;
}

}  // namespace zero::cli
