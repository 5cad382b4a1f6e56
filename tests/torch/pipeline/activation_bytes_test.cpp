// What libtorch's allocator holds on each rank of a pipeline, beside what `zero plan` and auto expect.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <c10/util/ThreadLocalDebugInfo.h>

#include "zero/base/process/clock.h"
#include "zero/base/process/timeline.h"
#include "zero/plan/pipeline/plan_passes.h"
#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/forward/held_layouts.h"

#include "tests/torch/pipeline/own_processes.h"
#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::Subject;
using Tensors = std::vector<at::Tensor>;

constexpr int kMicros = 6;
constexpr std::int64_t kSequences = 4, kTokens = 64, kWidth = 32, kHeads = 2, kVocab = 64;
constexpr double kTolerance = .02;
// Gradients on their way within a backward pass, which no formula counts: at most so many results of a block.
constexpr std::int64_t kResult = kSequences * kTokens * kWidth * 4;
constexpr double kOfCheckpoint = 3, kOfPass = 12;

// Bytes of tensors on this thread since construction, over time.
class BytesOverTime final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    now += bytes;
    most = std::max(most, now);
    log_.emplace_back(monotonic_seconds(), now);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t at(double seconds) const {
    const auto after = std::ranges::upper_bound(log_, seconds, {}, &std::pair<double, std::int64_t>::first);
    return after == log_.begin() ? 0 : (after - 1)->second;
  }
  std::int64_t now = 0, most = 0;

 private:
  std::vector<std::pair<double, std::int64_t>> log_;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(double drop) : drop(drop) {
    const torch::nn::LayerNormOptions normalized({kWidth});
    norm1 = register_module("norm1", torch::nn::LayerNorm(normalized));
    qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, kWidth));
    norm2 = register_module("norm2", torch::nn::LayerNorm(normalized));
    up = register_module("up", torch::nn::Linear(kWidth, 4 * kWidth));
    down = register_module("down", torch::nn::Linear(4 * kWidth, kWidth));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto heads = [](const torch::Tensor& each) {
      return each.reshape({kSequences, kTokens, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const std::vector<torch::Tensor> parts = qkv(norm1(x)).chunk(3, -1);
    const torch::Tensor mixed =
        at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0, /*is_causal=*/true)
            .transpose(1, 2)
            .reshape({kSequences * kTokens, kWidth});
    const torch::Tensor between = x + torch::dropout(out(mixed), drop, is_training());
    return between + torch::dropout(down(torch::gelu(up(norm2(between)))), drop, is_training());
  }
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  double drop;
};
TORCH_MODULE(Block);

struct NetOptions {
  double drop = 0;
  bool checkpoints = false;  // a block is an activation checkpoint
  bool tied = false;         // embedding and head share a weight
};

// The embedding is added again before each fourth block, so it crosses several sections.
struct Net : torch::nn::Module {
  static constexpr int kBlocks = 16;
  explicit Net(const NetOptions& options) : options(options) {
    table = register_module("table", torch::nn::Embedding(kVocab, kWidth));
    register_module("blocks", blocks);
    for (int i = 0; i < kBlocks; ++i) blocks->push_back(Block(options.drop));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    if (!options.tied) head = register_module("head", torch::nn::Linear(kWidth, kVocab));
  }
  torch::Tensor loss(const torch::Tensor& tokens) {
    const torch::Tensor first = table(tokens);
    torch::Tensor x = first;
    for (int i = 0; i < kBlocks; ++i) {
      if (i % 4 == 3) x = x + first;
      const std::function<at::Tensor(const Tensors&)> run = [this, i](const Tensors& in) {
        torch::Tensor y = blocks[static_cast<std::size_t>(i)]->as<BlockImpl>()->forward(in[0]);
        if (options.checkpoints) ends.push_back(monotonic_seconds());
        return y;
      };
      x = options.checkpoints ? checkpoint(run, {x}) : run({x});
    }
    // One number for each sequence, so gradients at the begin of the backward pass are small.
    const torch::Tensor ends = norm(x.view({kSequences, kTokens, kWidth}).mean(1));
    const torch::Tensor logits = options.tied ? torch::matmul(ends, table->weight.t()) : head(ends);
    return torch::cross_entropy_loss(logits, tokens.view({kSequences, kTokens}).select(1, 0));
  }
  NetOptions options;
  std::vector<double> ends;  // times at which a run of a checkpoint ended
  torch::nn::Embedding table{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};

Subject net_of(const NetOptions& options) {
  auto net = std::make_shared<Net>(options);
  return {net, [net](int step, int micro, int) {
            const torch::Tensor tokens =
                (torch::arange(kSequences * kTokens) * (step + 3) + micro * 5).remainder(kVocab);
            return net->loss(tokens);
          }};
}

std::vector<std::int64_t> planned_bytes(const Subject& subject, const PipelineOptions& pipeline,
                                        const AttachOptions& options) {
  const ModuleParameters parameters = parameters_of(*subject.module, options.dtype);
  const HeldLayouts layouts(parameters);
  const ForwardPlan forward = learn_forward(parameters, [&] { return subject.loss(0, 0, 0); });
  std::vector<std::int64_t> bytes;
  for (const RankTime& rank : plan_passes(forward.graph, pipeline, kMicros, {}).time.ranks)
    bytes.push_back(rank.activation_bytes);
  return bytes;
}

struct Measured {
  std::int64_t between = 0;  // most at the ends of passes, and of the second runs of checkpoints
  std::int64_t peak = 0;     // most at any time
};

// Bytes of a rank during passes(), beyond those before. A first step allocates what the engine keeps.
Measured measure(World& world, const Subject& subject, const PipelineOptions& pipeline, AttachOptions options) {
  Timeline timeline;
  options.accumulate = kMicros;
  options.timeline = &timeline;
  PipelineEngine engine = attach_pipeline(*subject.module, world, options, pipeline);
  Measured measured;
  for (int step = 0; step < 2; ++step) {
    const auto held = std::make_shared<BytesOverTime>();
    const c10::DebugInfoGuard listening(c10::DebugInfoKind::PROFILER_STATE, held);
    auto& ends = static_cast<Net&>(*subject.module).ends;
    ends.clear();
    timeline.start();
    engine.passes([&](int micro) { return subject.loss(step, micro, 0); });
    timeline.stop();
    for (const TimelineSpan& span : timeline.spans())
      if (span.pass.micro >= 0) ends.push_back(span.end);
    measured = {.between = 0, .peak = held->most};
    for (const double end : ends) measured.between = std::max(measured.between, held->at(end));
    engine.step(1e-2);
  }
  return measured;
}

// Within a backward pass there are also the gradients that an operator reads and makes. The second run of a checkpoint
// ends within a backward pass.
void expect_near(const Measured& measured, std::int64_t planned, const PipelineOptions& pipeline, int rank,
                 bool has_checkpoints) {
  const auto share = [planned](double bytes) { return bytes / static_cast<double>(planned) - 1; };
  const auto between = static_cast<double>(measured.between);
  const double on_their_way = has_checkpoints ? kOfCheckpoint * static_cast<double>(kResult) : 0;
  const auto where = [&] {
    return fmt::format("{}, rank {}: {} bytes planned, {} held", name_of(pipeline.schedule), rank, planned, between);
  };
  EXPECT_GT(share(between), -kTolerance) << where();
  EXPECT_LT(share(between - on_their_way), kTolerance) << where();
  EXPECT_LT(static_cast<double>(measured.peak - planned), kOfPass * static_cast<double>(kResult)) << where();
}

void expect_planned_bytes(const NetOptions& net, const PipelineOptions& pipeline,
                          const AttachOptions& options = {.stage = 0}, int lines = 1) {
  const int world = lines * pipeline.pipeline;
  std::vector<Subject> subjects;
  for (int rank = 0; rank < world; ++rank) subjects.push_back(net_of(net));
  const std::vector<std::int64_t> planned = planned_bytes(subjects[0], pipeline, options);
  std::vector<Measured> measured(static_cast<std::size_t>(world));
  tests::on_every_rank(world, [&](World& mine) {
    const auto rank = static_cast<std::size_t>(mine.rank());
    measured[rank] = measure(mine, subjects[rank], pipeline, options);
  });
  for (int rank = 0; rank < world; ++rank)
    expect_near(measured[static_cast<std::size_t>(rank)], planned.at(static_cast<std::size_t>(rank / lines)), pipeline,
                rank, net.checkpoints);
}

void expect_in_orders(const NetOptions& net, const std::vector<PassOrder>& orders) {
  for (const PassOrder order : orders) expect_planned_bytes(net, {.pipeline = 2, .schedule = order});
}

const std::vector<PassOrder> kOrders{PassOrder::kGpipe,       PassOrder::kOneForwardOneBackward,
                                     PassOrder::kInterleaved, PassOrder::kZbH1,
                                     PassOrder::kZbH2,        PassOrder::kZbV};

TEST(ActivationBytes, AreThoseOfTheAllocator) {
  expect_in_orders({}, kOrders);
}

TEST(ActivationBytes, CheckpointsAreCounted) {
  expect_in_orders({.checkpoints = true}, kOrders);
}

TEST(ActivationBytes, TiedGradientsAreCounted) {
  expect_in_orders({.tied = true}, kOrders);
}

// The middle position receives and sends in both directions. The embedding crosses to all later sections.
TEST(ActivationBytes, ThreePositionsHoldPlannedBytes) {
  for (const PassOrder order : kOrders) expect_planned_bytes({}, {.pipeline = 3, .schedule = order});
}

TEST(ActivationBytes, DepthIsCounted) {
  for (const int depth : {1, 2}) expect_planned_bytes({}, {.pipeline = 2, .depth = depth});
}

TEST(ActivationBytes, HalfPrecisionIsCounted) {
  for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbH1})
    expect_planned_bytes({}, {.pipeline = 2, .schedule = order}, {.stage = 0, .dtype = DType::kBFloat16});
}

// Gathered weights and sharded states are no activations.
TEST(ActivationBytes, ShardsChangeNone) {
  for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbH1})
    expect_planned_bytes({}, {.pipeline = 2, .schedule = order}, {.stage = 3}, /*lines=*/2);
}

TEST(PipelineRank, HoldsPlannedBytes) {
  const std::optional<int> rank = tests::rank_of_process();
  if (!rank) GTEST_SKIP() << "is a rank of ActivationBytes.DropoutIsCounted";
  torch::set_num_threads(1);
  World world = tests::world_of_process(2);
  for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbH1}) {
    const PipelineOptions pipeline{.pipeline = 2, .schedule = order};
    torch::manual_seed(7);
    const Subject subject = net_of({.drop = .1});
    const AttachOptions options{.stage = 0};
    const std::vector<std::int64_t> planned = planned_bytes(subject, pipeline, options);
    expect_near(measure(world, subject, pipeline, options), planned[static_cast<std::size_t>(*rank)], pipeline, *rank,
                /*has_checkpoints=*/false);
  }
}

TEST(ActivationBytes, DropoutIsCounted) {
  tests::expect_processes_pass(2, "PipelineRank.HoldsPlannedBytes");
}

}  // namespace
}  // namespace zero
