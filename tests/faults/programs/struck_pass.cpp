// zero_fault_struck_pass: a small model with a tied embedding in a pipeline. One rank strikes itself in a chosen pass.
//
//   zero_fault_struck_pass CHECKPOINT 1f1b|zb-h1 forward|backward|inputs|weights SECTION SIGNAL
//   zero_fault_struck_pass CHECKPOINT 1f1b|zb-h1                           the undisturbed run
//
// Each step saves, and a run continues from CHECKPOINT. In step 3 the rank of the section sends itself SIGNAL at the
// second operator of the section's second pass of this kind, but only before a restart. It first prints "rank R
// strikes". At the end rank 0 prints "weights HASH". Ends with status 3 if a peer fails.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <signal.h>

#include <ATen/record_function.h>
#include <torch/torch.h>

#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"
#include "zero/base/process/timeline.h"
#include "zero/torch/pipeline/attach_pipeline.h"

namespace zero {
namespace {

constexpr int kLayers = 4, kWidth = 16, kWords = 11, kSamples = 8;
constexpr int kMicros = 4;
constexpr int kSteps = 6, kStruckStep = 3;
constexpr int kPassOfKind = 2, kOperatorOfPass = 2;
constexpr std::chrono::milliseconds kTimeout{3000};  // ranks of a slow machine also meet in it

struct Strike {
  int signal = 0;  // 0: none
  PassKind kind = PassKind::kForward;
  int section = 0;
};

bool is_pass(Activity activity) {
  return activity == Activity::kForward || activity == Activity::kBackward || activity == Activity::kBackwardInputs ||
         activity == Activity::kBackwardWeights;
}

// The pass in which this rank is. The timeline holds a span for each pass that has ended.
struct Struck {
  Strike strike;
  int rank = 0;
  const Timeline* timeline = nullptr;
  std::vector<Pass> passes;  // of this rank, in order
  std::size_t pass = 0;      // index in `passes` of the last operator
  int operators = 0;         // of this pass
};
Struck* struck = nullptr;  // not null: in the step of the strike

std::unique_ptr<at::ObserverContext> strike_in_pass(const at::RecordFunction& /*called*/) {
  if (struck == nullptr) return nullptr;
  std::size_t ended = 0;
  for (const TimelineSpan& span : struck->timeline->spans()) ended += is_pass(span.activity) ? 1 : 0;
  if (ended >= struck->passes.size()) return nullptr;
  struck->operators = ended == struck->pass ? struck->operators + 1 : 1;
  struck->pass = ended;
  const auto is_chosen = [](const Pass& pass) {
    return pass.kind == struck->strike.kind && pass.section == struck->strike.section;
  };
  int chosen = 0;
  for (std::size_t i = 0; i <= ended; ++i) chosen += is_chosen(struck->passes[i]) ? 1 : 0;
  const bool is_here = is_chosen(struck->passes[ended]) && chosen == kPassOfKind;
  if (is_here && struck->operators == kOperatorOfPass) {
    fmt::print("rank {} strikes\n", struck->rank);
    std::fflush(stdout);
    ::raise(struck->strike.signal);
  }
  return nullptr;
}

Strike parse_strike(const std::vector<std::string>& words) {
  if (words.size() != 5) return {};
  const std::string& kind = words[2];
  return {.signal = std::stoi(words[4]),
          .kind = kind == "forward"    ? PassKind::kForward
                  : kind == "backward" ? PassKind::kBackward
                  : kind == "inputs"   ? PassKind::kInputs
                                       : PassKind::kWeights,
          .section = std::stoi(words[3])};
}

// The lookups are section 0, on the rank of the head.
struct TiedModel : torch::nn::Module {
  TiedModel() : table(kWords, kWidth) {
    register_module("table", table);
    register_module("layers", layers);
    for (int layer = 0; layer < kLayers; ++layer) layers->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  at::Tensor forward(const at::Tensor& words) {
    at::Tensor x = table(words);
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x));
    return torch::matmul(x, table->weight.t());
  }
  torch::nn::Embedding table;
  torch::nn::ModuleList layers;
};

at::Tensor samples(int step, int micro) {
  return (torch::arange(kSamples) * (step + 2) + micro * 3).remainder(kWords);
}

std::string weights_of(PipelineEngine& engine) {
  Sha256 hash;
  engine.for_each_parameter([&](const std::string& /*name*/, const torch::Tensor& tensor) {
    const at::Tensor whole = tensor.contiguous();
    hash.update(std::as_bytes(std::span(whole.data_ptr<float>(), static_cast<std::size_t>(whole.numel()))));
  });
  return hash.finish_hex();
}

void train(World& world, const std::filesystem::path& checkpoint, PassOrder order, const Strike& strike) {
  const char* const generation = std::getenv("ZERO_GENERATION");
  const bool is_first = generation == nullptr || std::string_view(generation) == "0";
  torch::manual_seed(5);
  TiedModel model;
  Timeline timeline;
  AttachOptions options{.stage = 2, .optimizer = AdamW{.lr = 1e-2}, .accumulate = kMicros};
  options.timeline = &timeline;
  PipelineEngine engine = attach_pipeline(model, world, options, {.pipeline = world.size(), .schedule = order});
  int step = 0;
  const auto loss = [&](int micro) {
    const at::Tensor words = samples(step, micro);
    return torch::cross_entropy_loss(model.forward(words), words.roll(1)) / kMicros;
  };
  engine.prepare(loss);
  if (std::filesystem::exists(checkpoint)) step = static_cast<int>(engine.load(checkpoint).manifest.steps);
  const PipelinePlan& plan = engine.plan();
  const bool strikes = strike.signal != 0 && is_first && world.rank() == plan.rank_of_section.at(strike.section);
  for (; step < kSteps; ++step) {
    Struck at{.strike = strike,
              .rank = world.rank(),
              .timeline = &timeline,
              .passes = plan.passes[static_cast<std::size_t>(world.rank())]};
    timeline.start();
    struck = strikes && step == kStruckStep ? &at : nullptr;
    engine.passes(loss);
    struck = nullptr;
    timeline.stop();
    engine.step();
    engine.save(checkpoint);
  }
  const std::string weights = weights_of(engine);
  if (world.rank() == 0) fmt::print("weights {}\n", weights);
}

int run_rank(const std::vector<std::string>& words) {
  try {
    at::addGlobalCallback(at::RecordFunctionCallback(strike_in_pass).scopes({at::RecordScope::FUNCTION}));
    at::set_num_threads(1);
    World world = World::from_environment({.timeout = kTimeout});
    train(world, words.at(0), pass_order_of(words.at(1)), parse_strike(words));
    return 0;
  } catch (const CommError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "not a CommError: {}\n", error.what());
  }
  return 1;
}

}  // namespace
}  // namespace zero

int main(int argc, char** argv) {
  return zero::run_rank(std::vector<std::string>(argv + 1, argv + argc));
}
