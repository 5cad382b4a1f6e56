// zero_fault_struck_pass: a small model in lines of a pipeline. One rank strikes itself in a chosen pass.
//
//   zero_fault_struck_pass CHECKPOINT ORDER KIND SECTION SIGNAL [lines=2] [tied=0] [stage=3] ...
//   zero_fault_struck_pass CHECKPOINT ORDER [lines=2] ...                     the undisturbed run
//
//   ORDER    1f1b, zb-v and others (parallel.schedule)
//   KIND     forward, backward, inputs, weights: the strike is at the second operator of the section's second pass of
//            this kind. evaluation: at the begin of the section's pass. gather, reduction: before the rank's first
//            gather, or sum, of a unit
//   lines    number of lines, 1 by default; the rank of the last line strikes
//   tied     1 by default: the embedding is also the head, and its lookups are section 0. 0: there is no such section
//   stage, micros, transport, timeout     2, 4, auto and 3 (seconds) by default
//   evaluates                    1: each step evaluates
//
// Each step saves, and a run continues from CHECKPOINT. In step 3 the rank of the section sends itself SIGNAL, but only
// before a restart. It first prints "rank R strikes". At the end rank 0 prints "weights HASH". Ends with status 3 if a
// peer fails.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <signal.h>

#include <ATen/record_function.h>
#include <torch/torch.h>

#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"
#include "zero/base/process/timeline.h"
#include "zero/comm/group.h"
#include "zero/comm/transport/open_transport.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/forwarded_communicator.h"

namespace zero {
namespace {

constexpr int kLayers = 4, kWidth = 16, kWords = 11, kSamples = 8;
constexpr int kSteps = 6, kStruckStep = 3;
constexpr int kPassOfKind = 2, kOperatorOfPass = 2;

enum class Moment { kPass, kEvaluation, kGather, kReduction };

struct Strike {
  int signal = 0;  // 0: none
  Moment moment = Moment::kPass;
  PassKind kind = PassKind::kForward;  // of a pass
  int section = 0;
};

struct Options {
  std::filesystem::path checkpoint;
  PassOrder order = PassOrder::kOneForwardOneBackward;
  Strike strike;
  int lines = 1, micros = 4, stage = 2;
  bool is_tied = true, evaluates = false;
  std::string transport = "auto";
  std::chrono::seconds timeout{3};  // ranks of a slow machine also meet in it
};

void strike_now(int rank, int signal) {
  fmt::print("rank {} strikes\n", rank);
  std::fflush(stdout);
  ::raise(signal);
}

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
  if (is_here && struck->operators == kOperatorOfPass) strike_now(struck->rank, struck->strike.signal);
  return nullptr;
}

// Strikes before the first chosen collective of a unit, while `is_on`.
struct StruckCollective {
  Strike strike;
  int rank = 0;
  bool is_on = false;

  void begins(Moment moment, const CommTag& tag) {
    if (!is_on || moment != strike.moment || tag.unit < 0) return;
    is_on = false;
    strike_now(rank, strike.signal);
  }
};

class StruckCommunicator final : public ForwardedCommunicator, private GroupOpener {
 public:
  StruckCommunicator(std::unique_ptr<Communicator> real, StruckCollective& struck)
      : ForwardedCommunicator(*real), real_(std::move(real)), struck_(struck) {}

  GroupOpener* groups() override { return real_->groups() == nullptr ? nullptr : this; }
  Arrivals* arrivals() override { return real_->arrivals(); }
  Mailbox* mailbox() override { return real_->mailbox(); }
  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    struck_.begins(Moment::kGather, tag);
    return real_->all_gather(in, out, tag);
  }
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override {
    struck_.begins(Moment::kReduction, tag);
    return real_->reduce_scatter(request, tag);
  }

 private:
  std::uint64_t newest_group() const override { return real_->groups()->newest_group(); }
  int world_rank(int rank) const override { return real_->groups()->world_rank(rank); }
  std::unique_ptr<Communicator> open(const GroupPlace& place) override {
    return std::make_unique<StruckCommunicator>(real_->groups()->open(place), struck_);
  }

  std::unique_ptr<Communicator> real_;
  StruckCollective& struck_;
};

Strike parse_strike(const std::string& kind, const std::string& section, const std::string& signal) {
  Strike strike{.signal = std::stoi(signal), .section = std::stoi(section)};
  const std::vector<std::pair<std::string_view, PassKind>> passes{{"forward", PassKind::kForward},
                                                                  {"backward", PassKind::kBackward},
                                                                  {"inputs", PassKind::kInputs},
                                                                  {"weights", PassKind::kWeights}};
  const std::vector<std::pair<std::string_view, Moment>> others{
      {"evaluation", Moment::kEvaluation}, {"gather", Moment::kGather}, {"reduction", Moment::kReduction}};
  for (const auto& [name, pass] : passes) {
    if (name != kind) continue;
    strike.kind = pass;
    return strike;
  }
  for (const auto& [name, moment] : others) {
    if (name != kind) continue;
    strike.moment = moment;
    return strike;
  }
  throw std::invalid_argument("unknown kind of pass: " + kind);
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  std::vector<std::string> places;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == std::string::npos) {
      places.push_back(word);
    } else if (name == "transport") {
      options.transport = word.substr(equals + 1);
    } else {
      const int value = std::stoi(word.substr(equals + 1));
      if (name == "lines") {
        options.lines = value;
      } else if (name == "micros") {
        options.micros = value;
      } else if (name == "stage") {
        options.stage = value;
      } else if (name == "timeout") {
        options.timeout = std::chrono::seconds(value);
      } else if (name == "tied") {
        options.is_tied = value != 0;
      } else if (name == "evaluates") {
        options.evaluates = value != 0;
      } else {
        throw std::invalid_argument("unknown option: " + name);
      }
    }
  }
  options.checkpoint = places.at(0);
  options.order = pass_order_of(places.at(1));
  if (places.size() > 2) options.strike = parse_strike(places.at(2), places.at(3), places.at(4));
  return options;
}

// The lookups of a tied embedding are section 0, on the rank of the head.
struct Model : torch::nn::Module {
  explicit Model(bool is_tied) : table(kWords, kWidth) {
    register_module("table", table);
    register_module("layers", layers);
    for (int layer = 0; layer < kLayers; ++layer) layers->push_back(torch::nn::Linear(kWidth, kWidth));
    if (!is_tied) head = register_module("head", torch::nn::Linear(kWidth, kWords));
  }
  at::Tensor forward(const at::Tensor& words) {
    at::Tensor x = table(words);
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x));
    return head.is_empty() ? torch::matmul(x, table->weight.t()) : head->forward(x);
  }
  torch::nn::Embedding table;
  torch::nn::ModuleList layers;
  torch::nn::Linear head{nullptr};
};

at::Tensor samples(int step, int micro, int line) {
  return (torch::arange(kSamples) * (step + 2) + micro * 3 + line * 5).remainder(kWords);
}

std::string weights_of(PipelineEngine& engine) {
  Sha256 hash;
  engine.for_each_parameter([&](const std::string& /*name*/, const torch::Tensor& tensor) {
    const at::Tensor whole = tensor.contiguous();
    hash.update(std::as_bytes(std::span(whole.data_ptr<float>(), static_cast<std::size_t>(whole.numel()))));
  });
  return hash.finish_hex();
}

bool is_first_start() {
  const char* const generation = std::getenv("ZERO_GENERATION");
  return generation == nullptr || std::string_view(generation) == "0";
}

void train(World& world, const Options& options, StruckCollective& collective) {
  torch::manual_seed(5);
  Model model(options.is_tied);
  Timeline timeline;
  AttachOptions attached{.stage = options.stage, .optimizer = AdamW{.lr = 1e-2}, .accumulate = options.micros};
  attached.timeline = &timeline;
  PipelineEngine engine =
      attach_pipeline(model, world, attached, {.pipeline = world.size() / options.lines, .schedule = options.order});
  const int line = world.rank() % options.lines, position = world.rank() / options.lines;
  int step = 0;
  const auto loss = [&](int micro) {
    const at::Tensor words = samples(step, micro, line);
    return torch::cross_entropy_loss(model.forward(words), words.roll(1)) / options.micros;
  };
  engine.prepare(loss);
  if (std::filesystem::exists(options.checkpoint))
    step = static_cast<int>(engine.load(options.checkpoint).manifest.steps);
  const PipelinePlan& plan = engine.plan();
  const Strike& strike = options.strike;
  const bool strikes = strike.signal != 0 && is_first_start() && line == options.lines - 1 &&
                       position == plan.rank_of_section.at(static_cast<std::size_t>(strike.section));
  const std::vector<int> own = plan.sections_of(position);
  for (; step < kSteps; ++step) {
    const bool strikes_now = strikes && step == kStruckStep;
    Struck at{.strike = strike,
              .rank = world.rank(),
              .timeline = &timeline,
              .passes = plan.passes[static_cast<std::size_t>(position)]};
    timeline.start();
    struck = strikes_now && strike.moment == Moment::kPass ? &at : nullptr;
    collective = {.strike = strike, .rank = world.rank(), .is_on = strikes_now};
    engine.passes(loss);
    struck = nullptr;
    timeline.stop();
    engine.step();
    collective.is_on = false;
    std::size_t evaluated = 0;  // sections of this rank
    const auto results = [&] {
      const bool is_chosen = evaluated < own.size() && own[evaluated++] == strike.section;
      if (strikes_now && strike.moment == Moment::kEvaluation && is_chosen) strike_now(world.rank(), strike.signal);
      return std::vector<torch::Tensor>{model.forward(samples(step, 0, line))};
    };
    if (options.evaluates) engine.evaluate({kSamples}, results);
    engine.save(options.checkpoint);
  }
  const std::string weights = weights_of(engine);
  if (world.rank() == 0) fmt::print("weights {}\n", weights);
}

// Only a run with a struck collective has a communicator of its own.
World open_world(const Options& options, StruckCollective& collective) {
  const Moment moment = options.strike.moment;
  if (moment != Moment::kGather && moment != Moment::kReduction)
    return World::from_environment({.transport = options.transport, .timeout = options.timeout});
  const RankEnvironment ranks = detect_ranks({}, [](const char* name) { return std::getenv(name); });
  return World(
      std::make_unique<StruckCommunicator>(open_transport(options.transport, ranks, options.timeout), collective),
      ranks.local_world, ranks.source, ranks.run_id);
}

int run_rank(const std::vector<std::string>& words) {
  try {
    at::addGlobalCallback(at::RecordFunctionCallback(strike_in_pass).scopes({at::RecordScope::FUNCTION}));
    at::set_num_threads(1);
    const Options options = parse(words);
    StruckCollective collective;
    World world = open_world(options, collective);
    train(world, options, collective);
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
