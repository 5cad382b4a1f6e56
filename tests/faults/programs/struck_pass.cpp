// zero_fault_struck_pass: one rank of a small model in a pipeline, which strikes itself in a chosen kind of pass.
//
//   zero_fault_struck_pass CHECKPOINT forward|inputs|weights SIGNAL RANK
//   zero_fault_struck_pass CHECKPOINT                                        the undisturbed run
//
// Each step saves, and a run continues from CHECKPOINT. In step 3 the rank sends itself SIGNAL at the third operator of
// its second pass of this kind, but only before a restart. It first prints "rank R strikes". At the end rank 0 prints
// "weights HASH". Ends with status 3 if a peer fails.
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

constexpr int kLayers = 4, kWidth = 16, kSamples = 8;
constexpr int kMicros = 4;
constexpr int kSteps = 6, kStruckStep = 3;
constexpr int kPassOfKind = 2, kOperatorOfPass = 3;
constexpr std::chrono::milliseconds kTimeout{3000};  // ranks of a slow machine also meet in it

struct Strike {
  int rank = -1;
  int signal = 0;
  PassKind kind = PassKind::kForward;
};

bool is_pass(Activity activity) {
  return activity == Activity::kForward || activity == Activity::kBackward || activity == Activity::kBackwardInputs ||
         activity == Activity::kBackwardWeights;
}

// The pass in which this rank is. The timeline holds a span for each pass that has ended.
struct Struck {
  Strike strike;
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
  int of_kind = 0;
  for (std::size_t i = 0; i <= ended; ++i) of_kind += struck->passes[i].kind == struck->strike.kind ? 1 : 0;
  const bool is_here = struck->passes[ended].kind == struck->strike.kind && of_kind == kPassOfKind;
  if (is_here && struck->operators == kOperatorOfPass) {
    fmt::print("rank {} strikes\n", struck->strike.rank);
    std::fflush(stdout);
    ::raise(struck->strike.signal);
  }
  return nullptr;
}

Strike parse_strike(const std::vector<std::string>& words) {
  if (words.size() != 4) return {};
  const std::string& kind = words[1];
  return {.rank = std::stoi(words[3]),
          .signal = std::stoi(words[2]),
          .kind = kind == "forward"  ? PassKind::kForward
                  : kind == "inputs" ? PassKind::kInputs
                                     : PassKind::kWeights};
}

torch::nn::Sequential make_model() {
  torch::nn::Sequential model;
  for (int layer = 0; layer < kLayers; ++layer) {
    model->push_back(torch::nn::Linear(kWidth, kWidth));
    model->push_back(torch::nn::Tanh());
  }
  return model;
}

at::Tensor samples(int step, int micro) {
  const auto count = static_cast<float>(kSamples * kWidth);
  return torch::sin(torch::arange(count) * static_cast<float>(1 + step * kMicros + micro)).reshape({kSamples, kWidth});
}

std::string weights_of(PipelineEngine& engine) {
  Sha256 hash;
  engine.for_each_parameter([&](const std::string& /*name*/, const torch::Tensor& tensor) {
    const at::Tensor whole = tensor.contiguous();
    hash.update(std::as_bytes(std::span(whole.data_ptr<float>(), static_cast<std::size_t>(whole.numel()))));
  });
  return hash.finish_hex();
}

void train(World& world, const std::filesystem::path& checkpoint, const Strike& strike) {
  const char* const generation = std::getenv("ZERO_GENERATION");
  const bool strikes = strike.rank == world.rank() && (generation == nullptr || std::string_view(generation) == "0");
  torch::manual_seed(5);
  torch::nn::Sequential model = make_model();
  Timeline timeline;
  AttachOptions options{.stage = 2, .optimizer = AdamW{.lr = 1e-2}, .accumulate = kMicros};
  options.timeline = &timeline;
  PipelineEngine engine =
      attach_pipeline(*model, world, options, {.pipeline = world.size(), .schedule = PassOrder::kZbH1});
  int step = 0;
  const auto loss = [&](int micro) {
    const at::Tensor in = samples(step, micro);
    return torch::mse_loss(model->forward(in), in.flip(1)) / kMicros;
  };
  engine.prepare(loss);
  if (std::filesystem::exists(checkpoint)) step = static_cast<int>(engine.load(checkpoint).manifest.steps);
  for (; step < kSteps; ++step) {
    Struck at{.strike = strike,
              .timeline = &timeline,
              .passes = engine.plan().passes[static_cast<std::size_t>(world.rank())]};
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
    train(world, words.at(0), parse_strike(words));
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
