// `zero bench muon`: Newton-Schulz iterations by zero.cpp and by libtorch, in turns. libtorch computes whole products where
// ours computes a half of symmetric ones, so there are two ratios: of the operations a second, and of the time. Beside them
// stands the time that `zero plan` would predict.
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include "zero/base/parallel.h"
#include "zero/bench/measurement.h"
#include "zero/cli/torch_verbs/verbs.h"
#include "zero/optim/muon_rule.h"
#include "zero/optim/newton_schulz.h"
#include "zero/train/machine_peak.h"

namespace zero::cli {
namespace {

// The formulas of newton_schulz.h. `matrix` has no more rows than columns.
at::Tensor by_libtorch(const at::Tensor& matrix, const NewtonSchulzOptions& options) {
  at::Tensor x = matrix / matrix.norm();
  for (int step = 0; step < options.steps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    const at::Tensor polynomial = at::addmm(gram, gram, gram, options.b, options.c);
    x = at::addmm(x, polynomial, x, options.a);
  }
  return x;
}

}  // namespace

int bench_muon_verb(const BenchMuonRequest& request) {
  at::set_num_threads(request.threads);
  const at::NoGradGuard no_grad;
  const NewtonSchulzOptions options;
  const std::int64_t m = std::min(request.rows, request.columns), n = std::max(request.rows, request.columns);
  const at::Tensor direction = at::randn({m, n});
  at::Tensor ours = at::empty_like(direction);
  std::vector<float> workspace(static_cast<std::size_t>(newton_schulz_numel(m, n)));
  ThreadTeam team(request.threads);
  Measurement libtorch, zero;
  at::Tensor theirs;
  for (std::int64_t round = 0; round < request.rounds; ++round) {
    libtorch.time([&] { theirs = by_libtorch(direction, options); });
    ours.copy_(direction);
    zero.time([&] { newton_schulz(options, ours.mutable_data_ptr<float>(), m, n, workspace, team); });
  }
  const double planned = probe_completion_seconds(*make_rule(MuonOptions{})->matrices(), {m, n}, request.threads);
  const double difference = (ours - theirs).norm().item<double>() / theirs.norm().item<double>();
  const double side = static_cast<double>(m), length = static_cast<double>(n);
  const double whole = options.steps * (4 * side * side * length + 2 * side * side * side);
  const double computed = newton_schulz_flops(m, n, options.steps);
  const double rate = computed / zero.median(), limit = whole / libtorch.median();
  if (request.json) {
    std::cout << nlohmann::ordered_json{{"bench", "muon"},
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
                                        {"planned_s", planned},
                                        {"ratio_planned", planned / zero.median()},
                                        {"relative_difference", difference},
                                        {"libtorch_spread", libtorch.spread()},
                                        {"restless", libtorch.spread() > kRestless}}
                     .dump(2)
              << '\n';
    return 0;
  }
  const auto row = [](std::string_view name, const Measurement& measured, double flops) {
    return fmt::format("  {:<10} {:>9.2f} ms {:>9.1f} GFLOP {:>9.1f} GFLOP/s\n", name, measured.median() * 1e3,
                       flops * 1e-9, flops * 1e-9 / measured.median());
  };
  std::cout
      << fmt::format("{} Newton-Schulz iterations of a {} x {} matrix, {} threads, medians of {}\n", options.steps,
                     request.rows, request.columns, request.threads, request.rounds)
      << row("libtorch", libtorch, whole) << row("zero.cpp", zero, computed)
      << fmt::format(
             "  operations a second: {:.2f} of libtorch's; time: {:.2f} of libtorch's; results differ by {:.1e}\n",
             rate / limit, zero.median() / libtorch.median(), difference)
      << fmt::format("  zero plan expects {:.2f} ms: {:.2f} of the time measured\n", planned * 1e3,
                     planned / zero.median());
  if (libtorch.spread() > kRestless)
    std::cout << fmt::format("  note: libtorch's times differ by {:.0f} %: something else is running, measure again\n",
                             100 * libtorch.spread());
  return 0;
}

}  // namespace zero::cli
