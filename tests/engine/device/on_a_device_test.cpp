// An engine on a device whose memory the host cannot touch, and which finds every race. With ZERO_TEST_DEVICE=cuda the
// device is a GPU. A GPU finds no races, but must give the same bits.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/device/host_device.h"
#include "zero/device/open_device.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/engine/update/matrix_directions.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/device/recorded_device.h"
#include "tests/support/expect_contains.h"
#include "tests/support/forwarded_device.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

// One device for each rank. Devices outlive the engines.
struct Devices {
  explicit Devices(int world, const RecordedDevice::Options& options = {}) {
    const char* const name = std::getenv("ZERO_TEST_DEVICE");
    for (int rank = 0; rank < world; ++rank) {
      if (name != nullptr) {
        all.push_back(open_device(name));
      } else {
        all.push_back(std::make_unique<RecordedDevice>(options));
      }
    }
  }
  std::vector<std::unique_ptr<Device>> all;
};

ScriptedRun run_on(Devices* devices, int world, const std::vector<ParamSpec>& specs, const AttachOptions& options) {
  ScriptedSteps steps{.steps = 3};
  if (devices != nullptr)
    steps.device = [devices](int rank) { return devices->all[static_cast<std::size_t>(rank)].get(); };
  return scripted_run(world, specs, options, steps);
}

void expect_host_bits(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options) {
  Devices devices(world);
  EXPECT_EQ(run_on(&devices, world, specs, options), run_on(nullptr, world, specs, options)) << options.stage;
}

TEST(OnADevice, StagesMatchHostBits) {
  for (const int world : {1, 2})
    for (const AttachOptions& options : at_all_stages({})) expect_host_bits(world, small_specs(), options);
}

// A single rank holds no gathered copies, at any stage.
TEST(OnADevice, OneRankHoldsUnitsWhole) {
  for (const AttachOptions& options : {AttachOptions{.stage = 3}, AttachOptions{.stage = 1, .accumulate = 2}}) {
    Devices devices(1);
    const ScriptedRun run = run_on(&devices, 1, small_specs(DType::kBFloat16), options);
    EXPECT_EQ(run.reports.front().peak_memory.device[MemoryTag::kGathered], 0) << options.stage;
    EXPECT_EQ(run, run_on(nullptr, 1, small_specs(DType::kBFloat16), options)) << options.stage;
  }
}

TEST(OnADevice, LowPrecisionAndMicroBatchesMatch) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const AttachOptions& options : at_all_stages({.accumulate = 2}))
      expect_host_bits(2, small_specs(dtype), options);
}

// Units are aligned as attach() aligns them for a device, and compared with units that are aligned for the host.
TEST(OnADevice, ParametersThatBeginElsewhereHaveThem) {
  Sweep sweep(/*one_in=*/3);
  for (const int world : {1, 2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const OptimizerOptions& rule : {OptimizerOptions(AdamWOptions{}), OptimizerOptions(AdafactorOptions{})}) {
        std::vector<AttachOptions> all = at_all_stages({.optimizer = rule, .clip = 0.5, .accumulate = 2});
        AttachOptions cut{.stage = 3, .shards = Cut::kWhole, .optimizer = rule};
        all.push_back(cut);
        for (AttachOptions options : all) {
          if (!sweep.takes_next()) continue;
          const ScriptedRun on_host = run_on(nullptr, world, small_specs(dtype), options);
          options.align_bytes = kGpuAlignBytes;
          Devices devices(world);
          const ScriptedRun on_device = run_on(&devices, world, small_specs(dtype), options);
          EXPECT_EQ(on_device.weights, on_host.weights) << options.stage << ", " << world;
          EXPECT_EQ(on_device.norms, on_host.norms) << options.stage << ", " << world;
        }
      }
    }
  }
}

TEST(OnADevice, StatesOnTheHostHaveThem) {
  AttachOptions options{.stage = 3};
  options.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 1}};
  expect_host_bits(2, small_specs(), options);
  options.offload.fractions = {.optimizer = {.host = 0.5}};
  expect_host_bits(2, small_specs(DType::kBFloat16), options);
}

// The device runs its work as late as possible.
TEST(OnADevice, LatestWorkMatches) {
  AttachOptions on_host{.stage = 3, .accumulate = 2};
  on_host.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.5}};
  std::vector<AttachOptions> all = at_all_stages({.accumulate = 2});
  all.push_back(on_host);
  for (const AttachOptions& options : all) {
    const ScriptedRun expected = run_on(nullptr, 2, small_specs(DType::kBFloat16), options);
    for (std::uint64_t seed = 1; seed <= (in_full_tier() ? 4U : 2U); ++seed) {
      Devices devices(2, {.late = seed, .far_behind = seed % 2 == 0});
      EXPECT_EQ(run_on(&devices, 2, small_specs(DType::kBFloat16), options), expected) << options.stage << ", " << seed;
    }
  }
}

TEST(OnADevice, StatesOnADiskHaveThem) {
  const TemporaryFolder folder;
  AttachOptions options{.stage = 3};
  options.offload.disk = {folder.path().string()};
  options.offload.fractions = {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};
  expect_host_bits(2, small_specs(), options);
  options.offload.fractions = {
      .parameter = {.host = 0.4, .disk = 0.35}, .gradient = {.host = 0.2, .disk = 0.3}, .optimizer = {.disk = 0.45}};
  expect_host_bits(2, small_specs(DType::kBFloat16), options);
}

TEST(OnADevice, SecondaryPartsHaveThem) {
  Sweep sweep(/*one_in=*/2);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Cut cut : {Cut::kRange, Cut::kHash}) {
      for (const bool on_host : {false, true}) {
        AttachOptions options{.stage = 3, .secondary_group = 2, .shards = cut, .accumulate = 2};
        options.device_memory = MemoryBudget::parse("min");  // each pass gathers each unit again
        if (on_host) options.offload.fractions = {.parameter = {.host = 1}, .optimizer = {.host = 0.5}};
        if (!sweep.takes_next()) continue;
        const ScriptedRun expected = run_on(nullptr, 4, small_specs(dtype), options);
        for (const std::uint64_t seed : {1U, 2U}) {
          Devices devices(4, {.late = seed, .far_behind = seed == 2});
          const ScriptedRun seen = run_on(&devices, 4, small_specs(dtype), options);
          EXPECT_EQ(seen, expected) << on_host;
          const SecondaryReport here = seen.reports[0].secondary, there = expected.reports[0].secondary;
          EXPECT_GT(seen.reports[0].peak_memory.device[MemoryTag::kSecondary], 0);
          EXPECT_EQ(here.sent_between_groups, there.sent_between_groups);
        }
      }
    }
  }
}

// The groups have one or two ranks.
TEST(OnADevice, CopiesOfTheModelHaveThem) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int group : {1, 2}) {
      for (const AttachOptions& options : at_all_stages({.group = group, .clip = 0.5, .accumulate = 2})) {
        AttachOptions once = options;
        once.group = 0;
        Devices devices(4);
        const ScriptedRun copies = run_on(&devices, 4, small_specs(dtype), options);
        EXPECT_EQ(copies, run_on(nullptr, 4, small_specs(dtype), once)) << options.stage << ", " << group;
        const ScriptedRun host = run_on(nullptr, 4, small_specs(dtype), options);
        for (std::size_t rank = 0; rank < 4; ++rank) {
          EXPECT_EQ(copies.reports[rank].sent_bytes_per_step, host.reports[rank].sent_bytes_per_step);
          EXPECT_EQ(copies.reports[rank].copies.sent_bytes_per_step, host.reports[rank].copies.sent_bytes_per_step);
        }
      }
    }
  }
}

TEST(OnADevice, OffloadedCodedAndLateCopiesMatch) {
  AttachOptions away{.stage = 3, .group = 2, .accumulate = 2};
  away.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.5}};
  expect_host_bits(4, small_specs(DType::kBFloat16), away);
  for (const int group : {1, 2}) {
    AttachOptions coded{.stage = 2, .group = group};
    coded.wire.outer = WireCodec::kInt8;
    expect_host_bits(4, small_specs(), coded);
  }
  const AttachOptions options{.stage = 3, .group = 2, .accumulate = 2};
  const ScriptedRun expected = run_on(nullptr, 4, small_specs(), options);
  for (std::uint64_t seed = 1; seed <= (in_full_tier() ? 4U : 2U); ++seed) {
    Devices devices(4, {.late = seed, .far_behind = seed % 2 == 0});
    EXPECT_EQ(run_on(&devices, 4, small_specs(), options), expected) << seed;
  }
}

// Partial sums that move between copies stay on the host, which makes them.
TEST(OnADevice, CopiesUseHostBlocks) {
  const auto staged = [](Devices* devices, int world, int group) {
    const AttachOptions options{.stage = 0, .group = group};
    return run_on(devices, world, small_specs(DType::kBFloat16), options)
        .reports[0]
        .peak_memory.device[MemoryTag::kStaging];
  };
  Devices four(4), two(2);
  EXPECT_EQ(staged(&four, 4, 2), staged(&two, 2, 0));
  EXPECT_GT(staged(nullptr, 4, 2), staged(&two, 2, 0));
}

TEST(OnADevice, OtherRulesAverageAndDelayMatch) {
  expect_host_bits(2, small_specs(), {.stage = 3, .optimizer = SgdOptions{.momentum = 0.9}, .ema = 0.9});
  expect_host_bits(2, small_specs(DType::kBFloat16), {.stage = 1, .optimizer = AdamW8bitOptions{}});
  expect_host_bits(2, small_specs(), {.stage = 3, .delayed_update = true});
  expect_host_bits(1, small_specs(), {.stage = 0, .optimizer = LionOptions{}});
}

// CountedKernels: counts the kernels of one name. It is main memory that the engine treats as unreadable by the host.
class CountedKernels final : public ForwardedDevice {
 public:
  explicit CountedKernels(std::string_view name) : ForwardedDevice(HostDevice::instance()), name_(name) {}
  bool host_readable() const override { return false; }
  void run(Lane lane, const KernelCall& call) override {
    num_calls += call.kernel.name == name_ ? 1 : 0;
    ForwardedDevice::run(lane, call);
  }
  void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) override {
    num_down += lane == Lane::kDown ? 1 : 0;
    ForwardedDevice::copy(lane, to, from);
  }
  int num_calls = 0;
  int num_down = 0;  // copies in lane kDown

 private:
  std::string_view name_;
};

TEST(OnADevice, OneKernelUpdatesAUnit) {
  std::vector<ParamSpec> specs;
  for (int block = 0; block < 3; ++block)
    for (int param = 0; param < 7; ++param)
      specs.push_back({.name = "h." + std::to_string(block) + ".p" + std::to_string(param), .shape = {5 + param}});
  for (int param = 0; param < 20; ++param) specs.push_back({.name = "p" + std::to_string(param), .shape = {3}});
  for (const int stage : {0, 3}) {
    for (const int world : {1, 2}) {
      on_ranks(world, [&](Communicator& comm) {
        CountedKernels device("adam");
        EngineHost host;
        host.device = &device;
        ScriptedModel model(comm, specs, {.stage = stage}, host);
        ASSERT_EQ(model.units().size(), 4u);
        model.train(0);
        device.num_calls = 0;
        model.train(1);
        model.weight_bits();  // all updates are done
        // A kernel takes 16 spans. The root unit has 20, and a shard of it has about 10.
        EXPECT_EQ(device.num_calls, stage == 3 && world == 2 ? 4 : 5) << stage << ", " << world;
      });
    }
  }
}

// In the first options all states are on the host. In the second, half of the optimizer's are, so some tiles are
// updated on the device and some on the host.
std::vector<AttachOptions> on_the_host_at_stage_three(AttachOptions options) {
  options.stage = 3;
  std::vector<AttachOptions> all(2, options);
  all[0].offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 1}};
  all[1].offload.fractions = {.optimizer = {.host = 0.5}};
  return all;
}

void expect_host_bits_of_sums(const OptimizerOptions& rule) {
  Sweep sweep(/*one_in=*/3);
  for (const int world : {1, 2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int accumulate : {1, 2}) {
        const AttachOptions options{.optimizer = rule, .clip = 0.5, .accumulate = accumulate};
        std::vector<AttachOptions> all = at_all_stages(options);
        std::ranges::copy(on_the_host_at_stage_three(options), std::back_inserter(all));
        for (const AttachOptions& each : all)
          if (sweep.takes_next()) expect_host_bits(world, block_specs(dtype), each);
      }
    }
  }
}

TEST(OnADevice, LambMakesItsSumsThere) {
  expect_host_bits_of_sums(LambOptions{.weight_decay = 0.1});
}

// Adafactor's states of rows and columns stay on the device.
TEST(OnADevice, AdafactorKeepsItsStatesThere) {
  expect_host_bits_of_sums(AdafactorOptions{.weight_decay = 0.1});
}

TEST(OnADevice, LateSumsAndAverageMatch) {
  for (const OptimizerOptions& rule : {OptimizerOptions(LambOptions{}), OptimizerOptions(AdafactorOptions{})}) {
    std::vector<AttachOptions> all = on_the_host_at_stage_three({.optimizer = rule});
    all.push_back({.stage = 0, .optimizer = rule, .ema = 0.9});
    all.push_back({.stage = 2, .optimizer = rule, .ema = 0.9});
    for (const AttachOptions& options : all) {
      const ScriptedRun expected = run_on(nullptr, 2, small_specs(DType::kBFloat16), options);
      for (const std::uint64_t seed : {1U, 2U}) {
        Devices devices(2, {.late = seed, .far_behind = seed == 2});
        EXPECT_EQ(run_on(&devices, 2, small_specs(DType::kBFloat16), options), expected) << options.stage;
      }
    }
  }
}

// Between steps, the host reads and writes these states for a checkpoint and for a comparison of ranks.
TEST(OnADevice, RowColumnStatesAreReadThere) {
  const auto run = [](Devices* devices, std::vector<float>& seen) {
    ScriptedSteps steps{.steps = 4};
    if (devices != nullptr)
      steps.device = [devices](int rank) { return devices->all[static_cast<std::size_t>(rank)].get(); };
    std::mutex mutex;
    steps.before = [&](ScriptedModel& model, int step) {
      StateAccess& states = model.engine().states();
      EXPECT_TRUE(states.compare_replicas().same()) << step;
      if (step != 2) return;
      states.pause();
      const std::lock_guard lock(mutex);
      for (const FactorStates::State& state : states.factors()) {
        seen.insert(seen.end(), state.values.begin(), state.values.end());
        for (float& value : state.values) value *= 2;
      }
    };
    return scripted_run(2, small_specs(), {.stage = 3, .optimizer = AdafactorOptions{}}, steps);
  };
  Devices devices(2);
  std::vector<float> expected, seen;
  const ScriptedRun on_host = run(nullptr, expected), on_device = run(&devices, seen);
  EXPECT_EQ(on_device, on_host);
  EXPECT_EQ(seen, expected);
  EXPECT_NE(std::ranges::max(seen), 0);
  EXPECT_EQ(on_device.reports[0].state_bytes.device, on_host.reports[0].state_bytes.device);
}

// SumRule: a user's rule that has only host code, one sum and one state.
class SumRule final : public UpdateRule {
 public:
  std::string_view name() const override { return "sum rule"; }
  std::vector<StateSpec> states() const override { return {{"last"}}; }
  int num_sums() const override { return 1; }
  void add_sums(const UpdateSpan& span, const UpdateScalars& /*scalars*/, std::span<ExactSum> sums) const override {
    for (std::int64_t i = 0; i < span.numel; ++i)
      sums[0].add(static_cast<double>(span.parameter[i] * span.parameter[i]));
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    const auto rate = static_cast<float>(scalars.lr / (1 + scalars.sums[0]));
    for (std::int64_t i = 0; i < span.numel; ++i) {
      const float gradient = span.gradient_at(i) * static_cast<float>(scalars.gradient_scale);
      span.parameter[i] -= rate * (gradient + 0.5F * span.states[0][i]);
      span.states[0][i] = gradient;
    }
    span.write_low_precision();
  }
};

void expect_host_bits_of_host_updates(const AttachOptions& options) {
  Sweep sweep(/*one_in=*/3);
  for (const int world : {1, 2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      std::vector<AttachOptions> all = at_all_stages(options);
      std::ranges::copy(on_the_host_at_stage_three(options), std::back_inserter(all));
      for (AttachOptions each : all) {
        if (!sweep.takes_next()) continue;
        expect_host_bits(world, small_specs(dtype), each);
        each.accumulate = 2;
        expect_host_bits(world, small_specs(dtype), each);
      }
    }
  }
}

TEST(OnADevice, UserRuleUpdatesOnTheHost) {
  const OwnRule own{.rule = std::make_shared<SumRule>(), .lr = 0.01};
  expect_host_bits_of_host_updates({.optimizer = own});
  expect_host_bits(2, small_specs(DType::kBFloat16), {.stage = 1, .optimizer = own, .ema = 0.9});
}

TEST(OnADevice, UserMatrixRuleUpdatesOnHost) {
  expect_host_bits_of_host_updates({.optimizer = OwnRule{.rule = make_update_rule(MuonOptions{}), .lr = 1e-3}});
}

// Shards end within matrices with kRange, and between matrices with kWhole. With kWhole no part of a matrix is
// exchanged.
TEST(OnADevice, MuonUpdatesItsMatricesThere) {
  Sweep sweep(/*one_in=*/3);
  for (const int world : {1, 2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const Cut cut : {Cut::kRange, Cut::kWhole}) {
        const AttachOptions options{
            .shards = cut, .optimizer = MuonOptions{.weight_decay = 0.1}, .clip = 0.5, .accumulate = 1};
        for (AttachOptions each : at_all_stages(options)) {
          if (!sweep.takes_next()) continue;
          expect_host_bits(world, small_specs(dtype), each);
          each.accumulate = 2;
          expect_host_bits(world, block_specs(dtype), each);
        }
      }
    }
  }
}

TEST(OnADevice, MuonWithOffloadedStatesUsesHost) {
  Sweep sweep(/*one_in=*/2);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const double host : {0.4, 1.0}) {
        AttachOptions options{.stage = stage, .optimizer = MuonOptions{}, .accumulate = 2};
        options.offload.fractions = {.optimizer = {.host = host}};
        if (stage == 3) options.offload.fractions.parameter = {.host = 1 - host};
        for (const int world : {1, 2})
          if (sweep.takes_next()) expect_host_bits(world, block_specs(dtype), options);
      }
    }
  }
}

// With unequal shards, with an average of the weights, and with coded units.
TEST(OnADevice, MuonVariantsMatch) {
  const AttachOptions muon{.stage = 3, .optimizer = MuonOptions{}};
  AttachOptions weighted = muon, averaged = muon, coded = muon, copies = muon;
  weighted.shards = Cut::kWeighted;
  weighted.shard_weights = {3, 1};
  averaged.ema = 0.9;
  coded.wire.gather = coded.wire.reduce = WireCodec::kInt8;
  copies.group = 2;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const AttachOptions& options : {weighted, averaged, coded}) expect_host_bits(2, small_specs(dtype), options);
    expect_host_bits(4, small_specs(dtype), copies);
  }
}

TEST(OnADevice, MuonThatIsLateHasThem) {
  for (const AttachOptions& options : at_all_stages({.optimizer = MuonOptions{}, .accumulate = 2, .ema = 0.9})) {
    const ScriptedRun expected = run_on(nullptr, 2, small_specs(DType::kBFloat16), options);
    for (std::uint64_t seed = 1; seed <= (in_full_tier() ? 4U : 2U); ++seed) {
      Devices devices(2, {.late = seed, .far_behind = seed % 2 == 0});
      EXPECT_EQ(run_on(&devices, 2, small_specs(DType::kBFloat16), options), expected) << options.stage << ", " << seed;
    }
  }
}

// The device runs three products in each of five iterations for each of three matrices. The host copies no tile down
// and waits for none.
TEST(OnADevice, MuonProductsNeverBlockTheHost) {
  for (const int stage : {0, 3}) {
    on_ranks(1, [&](Communicator& comm) {
      CountedKernels device("matrix_product");
      EngineHost host;
      host.device = &device;
      ScriptedModel model(comm, small_specs(), {.stage = stage, .optimizer = MuonOptions{}}, host);
      model.train(0);
      device.num_calls = 0;
      device.num_down = 0;
      model.train(1);
      EXPECT_EQ(device.num_calls, 3 * 5 * 3) << stage;
      EXPECT_EQ(device.num_down, 0) << stage;
    });
  }
}

// Muon's directions and workspace stay on the device as long as the engine exists, because queued work uses them.
TEST(OnADevice, MuonMemoryMatchesThePlan) {
  const AttachOptions options{.stage = 0, .optimizer = MuonOptions{}};
  const auto staged = [](const AttachOptions& muon, int world, const std::vector<ParamSpec>& specs) {
    Devices devices(world);
    const ScriptedRun run = run_on(&devices, world, specs, muon);
    return run.reports[0].peak_memory.device[MemoryTag::kStaging];
  };
  const std::vector<Unit> alone = units_of(block_specs(DType::kFloat32), 1, options);
  EXPECT_EQ(staged(options, 1, block_specs(DType::kFloat32)) - staged({.stage = 0}, 1, block_specs(DType::kFloat32)),
            matrix_bytes(alone, 1, place(0, Reduce::kAuto, 1)));
  for (const Cut cut : {Cut::kRange, Cut::kWhole}) {
    for (int stage = 1; stage < 4; ++stage) {
      AttachOptions sharded = options;
      sharded.stage = stage;
      sharded.shards = cut;
      const Placement placement = place(stage, Reduce::kAuto, 1);
      const std::vector<Unit> units = units_of(block_specs(DType::kFloat32), 2, sharded);
      const std::int64_t bytes = staged(sharded, 2, block_specs(DType::kFloat32));
      EXPECT_GE(bytes, matrix_bytes(units, 2, placement)) << stage;
      EXPECT_LE(bytes, staging_bytes(units, 2, placement, /*min_budget=*/false)) << stage;
    }
  }
}

// At stages 0 to 2, with optimizer states on the host.
TEST(OnADevice, HostOptimizerStatesMatch) {
  Sweep sweep(/*one_in=*/5);
  for (const OptimizerOptions& rule :
       {OptimizerOptions(AdamWOptions{}), OptimizerOptions(LambOptions{}), OptimizerOptions(AdafactorOptions{})}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (int stage = 0; stage < 3; ++stage) {
        for (const int accumulate : {1, 2}) {
          for (const double host : {0.4, 1.0}) {
            AttachOptions options{.stage = stage, .optimizer = rule, .accumulate = accumulate};
            options.offload.fractions = {.optimizer = {.host = host}};
            if (stage == 2) options.offload.fractions.gradient = {.host = 1 - host};
            for (const int world : {1, 2, 3})
              if (sweep.takes_next()) expect_host_bits(world, small_specs(dtype), options);
          }
        }
      }
    }
  }
}

TEST(OnADevice, LateHostUpdatesMatch) {
  AttachOptions half{.stage = 2}, whole{.stage = 0, .accumulate = 2};
  half.offload.fractions = {.optimizer = {.host = 0.5}};
  whole.offload.fractions = {.optimizer = {.host = 1}};
  const std::vector<AttachOptions> all{half, whole, {.stage = 1, .optimizer = MuonOptions{}}};
  for (const AttachOptions& options : all) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const ScriptedRun expected = run_on(nullptr, 2, small_specs(dtype), options);
      for (const std::uint64_t seed : {1U, 2U}) {
        Devices devices(2, {.late = seed, .far_behind = seed == 2});
        EXPECT_EQ(run_on(&devices, 2, small_specs(dtype), options), expected) << options.stage;
      }
    }
  }
}

// CountsPinned: counts pinned bytes. It is main memory that the engine treats as unreadable by the host.
class CountsPinned final : public ForwardedDevice {
 public:
  CountsPinned() : ForwardedDevice(HostDevice::instance()) {}
  bool host_readable() const override { return false; }
  Allocation allocate_pinned(std::size_t bytes) override {
    pinned_ += static_cast<std::int64_t>(bytes);
    return ForwardedDevice::allocate_pinned(bytes);
  }
  std::int64_t pinned() const { return pinned_; }

 private:
  std::int64_t pinned_ = 0;
};

// The host updates masters and moments in place, so no copy reads them and they need not be pinned. Pinned memory is
// lost to other programs.
TEST(OnADevice, HostMastersAreNotPinned) {
  const std::int64_t numel = std::int64_t{1} << 22;  // more than all tiles in transfer
  const std::vector<ParamSpec> specs{{.name = "w", .shape = {1 << 12, 1 << 10}, .dtype = DType::kBFloat16}};
  const auto pinned_with = [&](const TierFractions& optimizer) {
    CountsPinned device;
    AttachOptions options{.stage = 3};
    options.offload.fractions = {.optimizer = optimizer};
    const ScriptedRun run = scripted_run(1, specs, options, {.steps = 1, .device = [&](int) { return &device; }});
    const MemoryCount& host = run.reports[0].memory.host;
    EXPECT_EQ(host[MemoryTag::kMoment] + host[MemoryTag::kMaster], optimizer.host > 0 ? 12 * numel : 0);
    return device.pinned();
  };
  EXPECT_LT(pinned_with({.host = 1}), pinned_with({}) + 8 * numel);
}

// Local steps and user rules with states of rows and columns are refused. The refusal names the option.
TEST(OnADevice, RefusesLocalStepsAndUserRules) {
  const auto refused = [](const AttachOptions& options) {
    Devices devices(2);
    std::string text;
    try {
      run_on(&devices, 2, small_specs(), options);
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  EXPECT_CONTAINS(refused({.local = LocalSteps{}}), "sync.mode");
  EXPECT_CONTAINS(refused({.optimizer = OwnRule{.rule = make_update_rule(AdafactorOptions{})}}),
                  "optimizer.rule = adafactor");
}

}  // namespace
}  // namespace zero
