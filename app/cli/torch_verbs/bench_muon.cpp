// `zero bench muon`: Newton-Schulz iterations by zero.cpp and by libtorch, in turns. libtorch computes whole products,
// and zero.cpp computes half of a symmetric product. So there are two ratios: of operations a second, and of time. It
// also prints the time that `zero plan` would predict for the CPU. On a GPU, libtorch also multiplies in fp32 (IEEE,
// without tf32).
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include "zero/base/process/parallel.h"
#include "zero/device/open_device.h"
#include "zero/optim/whole/muon_rule.h"
#include "zero/optim/whole/newton_schulz.h"
#include "zero/torch/seam/torch_device.h"

#include "app/cli/bench/measurement.h"
#include "app/cli/torch_verbs/verbs.h"
#include "app/train/machine/machine_peak.h"

namespace zero::cli {
namespace {

// Waits until a GPU has computed the matrix. The host does not need to wait.
void wait_for(const at::Tensor& matrix) {
  if (matrix.is_cuda()) matrix[0][0].item();
}

// The formulas of newton_schulz.h in libtorch. `matrix` has no more rows than columns.
at::Tensor by_libtorch(const at::Tensor& matrix, const NewtonSchulzOptions& options) {
  at::Tensor x = matrix / matrix.norm();
  for (int step = 0; step < options.steps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    const at::Tensor polynomial = at::addmm(gram, gram, gram, options.b, options.c);
    x = at::addmm(x, polynomial, x, options.a);
  }
  return x;
}

// zero.cpp's iterations, in memory of the host or of a GPU.
class OurIterations {
 public:
  OurIterations(Device* device, const at::Tensor& direction, int threads)
      : device_(device),
        rows_(direction.size(0)),
        columns_(direction.size(1)),
        result_(at::empty_like(direction)),
        team_(threads) {
    const auto numel = static_cast<std::size_t>(newton_schulz_numel(rows_, columns_));
    if (device_ == nullptr) {
      here_.resize(numel);
      workspace_ = here_;
    } else {
      there_ = device_->allocate(numel * sizeof(float));
      workspace_ = {reinterpret_cast<float*>(there_.data()), numel};
    }
  }
  // Copies the matrix with which run() begins, and waits for libtorch.
  void take(const at::Tensor& direction) {
    result_.copy_(direction);
    wait_for(result_);
  }
  void run(const NewtonSchulzOptions& options) {
    auto* const matrix = result_.mutable_data_ptr<float>();
    if (device_ == nullptr) return newton_schulz(options, matrix, rows_, columns_, workspace_, team_);
    queue_newton_schulz(*device_, Lane::kUpdate, options, matrix, rows_, columns_, workspace_);
    device_->join(device_->mark(Lane::kUpdate));
  }
  const at::Tensor& result() const { return result_; }

 private:
  Device* device_;  // null: the host
  std::int64_t rows_, columns_;
  at::Tensor result_;
  std::vector<float> here_;
  Allocation there_;
  std::span<float> workspace_;
  ThreadTeam team_;
};

// Opens the GPU; null: the host computes. Call it before any other use of libtorch.
std::unique_ptr<Device> opened(const BenchMuonRequest& request) {
  if (request.device == "cpu") return nullptr;
  std::unique_ptr<Device> device = open_device(request.device);
  if (device->host_readable()) return nullptr;
  open_torch_cuda(request.device);
  set_gpu_numerics({});
  return device;
}

}  // namespace

int bench_muon_verb(const BenchMuonRequest& request) {
  const std::unique_ptr<Device> device = opened(request);
  const std::string place =
      device == nullptr ? fmt::format("{} threads", request.threads) : std::string(device->name());
  at::set_num_threads(request.threads);
  const at::NoGradGuard no_grad;
  const NewtonSchulzOptions options;
  const std::int64_t m = std::min(request.rows, request.columns), n = std::max(request.rows, request.columns);
  at::Tensor direction = at::randn({m, n});
  if (device != nullptr) direction = direction.to(place_of(*device));
  OurIterations ours(device.get(), direction, request.threads);
  Measurement libtorch, zero;
  at::Tensor theirs;
  const auto by_theirs = [&] {
    theirs = by_libtorch(direction, options);
    wait_for(theirs);
  };
  if (device != nullptr) {  // the first use loads libraries and kernels
    by_theirs();
    ours.take(direction);
    ours.run(options);
  }
  for (std::int64_t round = 0; round < request.rounds; ++round) {
    libtorch.time(by_theirs);
    ours.take(direction);
    zero.time([&] { ours.run(options); });
  }
  std::optional<double> planned;
  if (device == nullptr)
    planned = probe_completion_seconds(*make_rule(MuonOptions{})->matrices(), {m, n}, request.threads);
  const double difference = (ours.result() - theirs).norm().item<double>() / theirs.norm().item<double>();
  const double side = static_cast<double>(m), length = static_cast<double>(n);
  const double whole = options.steps * (4 * side * side * length + 2 * side * side * side);
  const double computed = newton_schulz_flops(m, n, options.steps);
  const double rate = computed / zero.median(), limit = whole / libtorch.median();
  if (request.json) {
    nlohmann::ordered_json figures{{"bench", "muon"},
                                   {"device", device == nullptr ? "cpu" : device->name()},
                                   {"rows", request.rows},
                                   {"columns", request.columns},
                                   {"threads", request.threads},
                                   {"rounds", request.rounds},
                                   {"libtorch_median_s", libtorch.median()},
                                   {"zero_median_s", zero.median()},
                                   {"libtorch_flops_per_second", limit},
                                   {"zero_flops_per_second", rate},
                                   {"ratio_flops_per_second", rate / limit},
                                   {"ratio_seconds", zero.median() / libtorch.median()},
                                   {"relative_difference", difference},
                                   {"libtorch_spread", libtorch.spread()},
                                   {"restless", libtorch.spread() > kRestless}};
    if (planned) figures["planned_s"] = *planned;
    if (planned) figures["ratio_planned"] = *planned / zero.median();
    std::cout << figures.dump(2) << '\n';
    return 0;
  }
  const auto row = [](std::string_view name, const Measurement& measured, double flops) {
    return fmt::format("  {:<10} {:>9.2f} ms {:>9.1f} GFLOP {:>9.1f} GFLOP/s\n", name, measured.median() * 1e3,
                       flops * 1e-9, flops * 1e-9 / measured.median());
  };
  std::cout
      << fmt::format("{} Newton-Schulz iterations of a {} x {} matrix, {}, medians of {}\n", options.steps,
                     request.rows, request.columns, place, request.rounds)
      << row("libtorch", libtorch, whole) << row("zero.cpp", zero, computed)
      << fmt::format(
             "  operations a second: {:.2f} of libtorch's; time: {:.2f} of libtorch's; results differ by {:.1e}\n",
             rate / limit, zero.median() / libtorch.median(), difference);
  if (planned)
    std::cout << fmt::format("  zero plan expects {:.2f} ms: {:.2f} of the time measured\n", *planned * 1e3,
                             *planned / zero.median());
  if (libtorch.spread() > kRestless)
    std::cout << fmt::format("  note: libtorch's times differ by {:.0f} %: something else is running, measure again\n",
                             100 * libtorch.spread());
  return 0;
}

}  // namespace zero::cli
