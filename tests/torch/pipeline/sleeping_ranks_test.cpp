// Ranks that sleep instead of computing: a step takes the simulated time in every order of passes.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "zero/base/process/clock.h"
#include "zero/plan/pipeline/pipeline_time.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/torch/training_run.h"

namespace zero {
namespace {

constexpr int kBatch = 3, kWidth = 4;  // products that sum over the batch are gradients of weights
constexpr double kForward = .06, kInputs = .075, kWeights = .045;

// A rank that wakes late sleeps less the next time, so its passes take the given time in the mean.
void sleep_for(double seconds) {
  thread_local double late = 0;
  const double begin = monotonic_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds - late));
  late = std::min(seconds / 4, monotonic_seconds() - begin - (seconds - late));
}

torch::Tensor nap(const torch::Tensor& x) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("zero_naps::nap", "").typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

// Sleeps in its forward pass and in its backward pass. Only the rank of its section runs it.
struct Nap : torch::autograd::Function<Nap> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return nap(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    sleep_for(kInputs);
    return gradients;
  }
};

TORCH_LIBRARY(zero_naps, library) {
  library.def("nap(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(zero_naps, CPU, library) {
  library.impl("nap", [](const at::Tensor& x) {
    sleep_for(kForward);
    return x.clone();
  });
}
TORCH_LIBRARY_IMPL(zero_naps, Meta, library) {
  library.impl("nap", [](const at::Tensor& x) { return at::empty_like(x); });
}
TORCH_LIBRARY_IMPL(zero_naps, Autograd, library) {
  library.impl("nap", [](const at::Tensor& x) { return Nap::apply(x); });
}

// Sleeps before each product that is a gradient of weights.
std::unique_ptr<at::ObserverContext> sleep_before_weights(const at::RecordFunction& call) {
  if (std::string_view(call.name()) != "aten::mm" || call.inputs().size() < 2) return nullptr;
  const c10::IValue& left = call.inputs()[0];
  if (left.isTensor() && left.toTensor().dim() == 2 && left.toTensor().size(1) == kBatch) sleep_for(kWeights);
  return nullptr;
}

class SleepBeforeWeights {
 public:
  SleepBeforeWeights()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(sleep_before_weights).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {}
  SleepBeforeWeights(const SleepBeforeWeights&) = delete;
  SleepBeforeWeights& operator=(const SleepBeforeWeights&) = delete;
  ~SleepBeforeWeights() { at::removeCallback(handle_); }

 private:
  at::CallbackHandle handle_;
};

struct Sleepers : torch::nn::Module {
  explicit Sleepers(int count) {
    for (int i = 0; i < count; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(kWidth, kWidth)));
  }
  torch::Tensor loss(torch::Tensor x) {
    for (torch::nn::Linear& layer : layers) x = nap(layer->forward(x));
    return x.pow(2).mean();
  }
  std::vector<torch::nn::Linear> layers;
};

// Returns the seconds of the shortest of a few steps, from the first rank's begin to the last rank's end. Takes no
// further step if one is short enough.
double shortest_step(const PipelineOptions& pipeline, int sections, int micros, double short_enough) {
  constexpr int kMostSteps = 6;
  const auto ranks = static_cast<std::size_t>(pipeline.pipeline);
  std::vector<double> begins(ranks), ends(ranks);
  double shortest = 1e9;
  std::barrier together(pipeline.pipeline);
  tests::on_every_rank(pipeline.pipeline, [&](World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    Sleepers sleepers(sections);
    const torch::Tensor x = torch::ones({kBatch, kWidth}).requires_grad_(true);
    PipelineEngine engine = attach_pipeline(sleepers, world, {.stage = 0, .accumulate = micros}, pipeline);
    engine.prepare([&](int) { return sleepers.loss(x); });
    const SleepBeforeWeights sleeps;
    for (int step = 0; step < kMostSteps; ++step) {
      together.arrive_and_wait();
      begins[rank] = monotonic_seconds();
      engine.passes([&](int) { return sleepers.loss(x); }, micros);
      ends[rank] = monotonic_seconds();
      engine.step(0);
      together.arrive_and_wait();
      if (rank == 0) shortest = std::min(shortest, *std::ranges::max_element(ends) - *std::ranges::min_element(begins));
      together.arrive_and_wait();
      if (shortest <= short_enough) break;
    }
  });
  return shortest;
}

TEST(SleepingRanksFull, BubblesAreSimulated) {
  for (const int ranks : {2, 4, 8}) {
    const int micros = 2 * ranks;
    for (const Choice<PassOrder>& order : kPassOrders) {
      if (order.value == PassOrder::kAuto) continue;
      SCOPED_TRACE(std::string(order.word) + ", " + std::to_string(ranks) + " ranks");
      const int sections = default_sections(order.value, ranks);
      PipelineOptions pipeline{.pipeline = ranks, .schedule = order.value};
      for (int section = 1; section < sections; ++section)
        pipeline.first_units.push_back("layer" + std::to_string(section));
      const PassCosts costs = costs_of({.forward = kForward, .inputs = kInputs, .weights = kWeights}, sections);
      const PipelineTime time = simulate(build_pipeline(order.value, ranks, sections, micros), costs, {});
      const double tolerance = .05 * time.seconds;
      const double seconds = shortest_step(pipeline, sections, micros, time.seconds + tolerance);
      const double busy = (seconds - time.seconds) + time.bubble;  // the bubble of the real step
      EXPECT_NEAR(busy, time.bubble, tolerance) << seconds << " s, simulated " << time.seconds << " s";
    }
  }
}

}  // namespace
}  // namespace zero
