// From attach() to the end of an attachment: refused calls, the attached module as its users see it, and the returned
// module.
#include <atomic>

#include <gtest/gtest.h>

#include <c10/core/CPUAllocator.h>

#include "zero/torch/seam/dispatch_key.h"

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::TiedNet;

std::vector<torch::Tensor> clones(const torch::nn::Module& module) {
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& parameter : module.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

// ---- calls that attach() and step() refuse -------------------------------------------------------------------------

// The first attachment continues unchanged.
TEST(Attach, SecondAttachIsRefused) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(net, ranks); }), "attached already"));
    loss_of(net, 0, 0, ranks.rank()).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

// Two parameters are views of one allocation. `second` begins at element `at`.
struct CutNet : torch::nn::Module {
  explicit CutNet(std::int64_t at) : whole(torch::arange(8, torch::kFloat32) / 8) {
    first = register_parameter("first", whole.narrow(0, 0, 4));
    second = register_parameter("second", whole.narrow(0, at, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x * first + second; }
  torch::Tensor whole, first, second;
};

TEST(Attach, ParametersCutFromOneAllocationPart) {
  CutNet net(4);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.optimizer = Sgd{}});
    net.forward(torch::ones({4})).sum().backward();
    engine.step(1);
  });
  EXPECT_TRUE(torch::equal(net.first, torch::arange(4) / 8.0 - 1));
  EXPECT_TRUE(torch::equal(net.second, torch::arange(4, 8) / 8.0 - 1));
  EXPECT_TRUE(torch::equal(net.whole, torch::arange(8) / 8.0)) << "the old allocation no longer changes";
}

TEST(Attach, OverlappingParametersAreRefusedByName) {
  CutNet net(3);
  tests::on_every_rank(1, [&](World& ranks) {
    const std::string message = message_of<ConfigError>([&] { attach(net, ranks); });
    EXPECT_TRUE(says(message, "second"));
    EXPECT_TRUE(says(message, "shares memory with first"));
  });
  EXPECT_TRUE(torch::equal(net.first, torch::arange(4) / 8.0)) << "a refused module is unchanged";
}

TEST(Attach, OtherTypesAreRefusedByName) {
  torch::nn::Linear net(2, 2);
  net->to(torch::kDouble);
  tests::on_every_rank(
      1, [&](World& ranks) { EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(*net, ranks); }), "weight")); });
}

struct Loss {
  const char* parameter;
  std::function<void(TiedNet&)> apply;
};

TEST(LostKeys, StepNamesParameterOfLostKey) {
  const std::vector<Loss> losses{
      {"scale", [](TiedNet& net) { net.to(torch::kDouble); }},
      {"scale", [](TiedNet& net) { net.to(torch::kBFloat16); }},
      {"blocks.1.up.weight",
       [](TiedNet& net) {
         net.block(1).up->weight.set_data(torch::zeros({12, 6}));
       }},
      {"table.weight", [](TiedNet& net) { net.table->weight.set_data(net.table->weight.detach() * 2); }},
  };
  for (const AttachOptions& options : all_stages({})) {
    for (const Loss& loss : losses) {
      auto nets = tests::tied_nets(2);
      std::vector<torch::Tensor> started = clones(*nets[0]);
      tests::on_every_rank(2, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(net, ranks, options);
        loss.apply(net);
        const std::string message = message_of<ConfigError>([&] { engine.step(); });
        EXPECT_TRUE(says(message, loss.parameter)) << tests::placement_of(options);
        EXPECT_TRUE(says(message, "before attach()"));
      });
      EXPECT_TRUE(tests::same_bits(started, clones(*nets[1]))) << "the attached values are returned";
    }
  }
}

TEST(Attach, GathersNothing) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    const Engine engine = attach(*nets[static_cast<std::size_t>(ranks.rank())], ranks, {.stage = 3});
    EXPECT_EQ(engine.report().peak_memory.device[MemoryTag::kGathered], 0);
  });
}

// ---- an attached module as its users see it ------------------------------------------------------------------------

// A released parameter keeps its shape.
TEST(Attached, ReleasedParameterRefusesRawReads) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    const std::vector<torch::Tensor> before = net.parameters();
    Engine engine = attach(net, ranks, {.stage = 3});
    const torch::Tensor& weight = net.block(0).up->weight;
    EXPECT_EQ(weight.sizes(), (std::vector<std::int64_t>{12, 6}));
    EXPECT_TRUE(weight.is_leaf() && weight.requires_grad());
    EXPECT_TRUE(before[1].is_same(net.parameters()[1]));
    EXPECT_EQ(weight.t().slice(0, 1, 3).sizes(), (std::vector<std::int64_t>{2, 12})) << "views need no data";
    EXPECT_TRUE(says(message_of<c10::Error>([&] { weight.data_ptr<float>(); }), "blocks.0.up.weight: "));
    EXPECT_TRUE(torch::equal(weight, weight.clone())) << "operators need no help";
  });
}

TEST(Attached, GradientsNeverAppearInGrad) {
  for (const AttachOptions& options : all_stages({})) {
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      Engine engine = attach(net, ranks, options);
      loss_of(net, 0, 0, ranks.rank()).backward();
      for (const auto& item : net.named_parameters()) EXPECT_FALSE(item.value().grad().defined()) << item.key();
      EXPECT_THROW(engine.step(), ConfigError) << "step() reports the read of grad()";
      engine.step();
    });
  }
}

// ---- the end of an attachment --------------------------------------------------------------------------------------

void expect_ordinary(TiedNet& net) {
  for (const auto& item : net.named_parameters()) {
    EXPECT_FALSE(item.value().key_set().has(kParameterKey)) << item.key();
    EXPECT_NE(item.value().const_data_ptr(), nullptr) << item.key();
  }
  loss_of(net, 9, 0, 0).backward();
  for (const auto& item : net.named_parameters()) EXPECT_TRUE(item.value().grad().defined()) << item.key();
  net.zero_grad();
}

TEST(Destruction, GivesPlainAutogradFullParameters) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const AttachOptions& options : all_stages({.dtype = dtype})) {
      SCOPED_TRACE(tests::placement_of(options));
      auto nets = tests::tied_nets(3);
      std::vector<torch::Tensor> trained;
      tests::on_every_rank(3, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(net, ranks, options);
        loss_of(net, 0, 0, ranks.rank()).backward();
        engine.step(1e-2);
        loss_of(net, 1, 0, ranks.rank()).backward();  // without the step() that should follow
        std::vector<torch::Tensor> seen;
        const auto scope = engine.gathered(net);
        if (ranks.rank() == 0) trained = clones(net);
      });
      for (auto& net : nets) {
        EXPECT_TRUE(tests::same_bits(trained, clones(*net)));
        expect_ordinary(*net);
      }
    }
  }
}

TEST(Destruction, LetsTheModuleBeAttachedAgain) {
  std::vector<std::vector<torch::Tensor>> results;
  // SGD keeps no state between steps. So four attachments of one step equal one attachment of four steps.
  for (int steps_each : {4, 1}) {
    auto mine = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      TiedNet& net = *mine[static_cast<std::size_t>(ranks.rank())];
      for (int step = 0; step < 4;) {
        Engine engine = attach(net, ranks, {.stage = step % 4, .optimizer = Sgd{}});
        for (int i = 0; i < steps_each; ++i, ++step) {
          loss_of(net, step, 0, ranks.rank()).backward();
          engine.step(1e-2);
        }
      }
    });
    results.push_back(clones(*mine[0]));
  }
  EXPECT_TRUE(tests::same_bits(results[0], results[1]));
}

TEST(Destruction, ExceptionRemovesKeysWithoutWaiting) {
  auto nets = tests::tied_nets(1);
  TiedNet& net = *nets[0];
  EXPECT_THROW(tests::on_every_rank(1,
                                    [&](World& ranks) {
                                      const Engine engine = attach(net, ranks, {.stage = 3});
                                      throw std::runtime_error("the user's own");
                                    }),
               std::runtime_error);
  for (const auto& item : net.named_parameters()) {
    EXPECT_FALSE(item.value().key_set().has(kParameterKey)) << item.key();
  }
}

TEST(Abandon, LeavesEmptyButSafeParameters) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    {
      Engine engine = attach(net, ranks, {.stage = 3});
      loss_of(net, 0, 0, ranks.rank()).backward();
      engine.step();
      engine.abandon();
    }
    EXPECT_EQ(net.block(0).up->weight.sizes(), (std::vector<std::int64_t>{12, 6}));
    for (const auto& read : {std::function<void()>([&] { net.block(0).up->weight.const_data_ptr(); }),
                             std::function<void()>([&] { net.block(0).up->weight.data_ptr<float>(); }),
                             std::function<void()>([&] { net.block(0).up->weight.sum(); })})
      EXPECT_TRUE(says(message_of<c10::Error>(read), "blocks.0.up.weight: this parameter has no values"));
  });
}

// ---- deferred construction: no rank ever holds the whole model -----------------------------------------------------

// Bytes of torch's CPU memory. The ledger counts the memory of zero.cpp itself.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/255); }
  ~CountingAllocator() override { c10::SetCPUAllocator(before_, /*priority=*/255); }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  c10::DataPtr allocate(std::size_t bytes) override {
    const auto now = held_ += static_cast<std::int64_t>(bytes);
    std::int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    auto* block = new Block{before_->allocate(bytes), bytes};
    return {block->memory.mutable_get(), block, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  static std::int64_t peak() { return peak_; }

 private:
  struct Block {
    c10::DataPtr memory;
    std::size_t bytes;
  };
  static void free_block(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    held_ -= static_cast<std::int64_t>(block->bytes);
  }
  c10::Allocator* before_;
  // Tensors may outlive the allocator that made them.
  static inline std::atomic<std::int64_t> held_{0};
  static inline std::atomic<std::int64_t> peak_{0};
};

struct DeepNet : torch::nn::Module {
  DeepNet() {
    register_module("layers", layers);
    for (int i = 0; i < 32; ++i) layers->push_back(torch::nn::Linear(128, 128));
  }
  torch::nn::ModuleList layers;
};

TEST(DeferredAttach, NoRankHoldsTheWholeModel) {
  constexpr std::int64_t kUnitBytes = (128 * 128 + 128) * 4;
  constexpr std::int64_t kModelBytes = 32 * kUnitBytes;
  const CountingAllocator counting;
  std::vector<EngineReport> reports(2);
  tests::on_every_rank(2, [&](World& ranks) {
    const auto net = deferred([] { return std::make_shared<DeepNet>(); }, 3);
    Engine engine = attach(*net, ranks, {.stage = 3, .optimizer = Sgd{}});
    reports[static_cast<std::size_t>(ranks.rank())] = engine.report();
    engine.abandon();
  });
  // Scratch memory of both ranks: a unit's flat range and its source values.
  EXPECT_LE(CountingAllocator::peak(), 2 * 3 * kUnitBytes);
  EXPECT_GE(CountingAllocator::peak(), kUnitBytes) << "the allocator counted nothing";
  // Half of the parameters and half of the gradients remain.
  for (const EngineReport& report : reports)
    EXPECT_NEAR(static_cast<double>(report.peak_memory_bytes.device), static_cast<double>(kModelBytes),
                0.01 * kModelBytes);
}

}  // namespace
}  // namespace zero
