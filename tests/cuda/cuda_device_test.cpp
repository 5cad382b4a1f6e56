// The CUDA plug-in on a libcudart without a GPU: its calls of the driver, and its errors if the driver refuses.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/rank_sum.h"
#include "zero/device/element_kernels.h"
#include "zero/device/open_device.h"
#include "zero/optim/elementwise/adam_kernel.h"
#include "zero/optim/elementwise/adamw8bit_kernel.h"
#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/optim/elementwise/lion_kernel.h"
#include "zero/optim/elementwise/sgd_kernel.h"
#include "zero/optim/outer_step.h"
#include "zero/optim/rule_registry.h"
#include "zero/optim/whole/adafactor_kernel.h"
#include "zero/optim/whole/lamb_kernel.h"
#include "zero/optim/whole/matrix_product.h"
#include "zero/optim/whole/muon_kernel.h"
#include "zero/optim/whole/newton_schulz_kernels.h"

#include "tests/cuda/fake_cudart/fake_cudart.h"
#include "tests/support/environment_variable.h"
#include "tests/support/expect_says.h"

namespace zero {
namespace {

// Loads the fake libcudart.so.13 before the plug-in asks for that name.
FakeCuda* fake_cuda() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  void* const library = dlopen((folder / "fake_cudart/libcudart.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto state = library != nullptr ? reinterpret_cast<FakeCudaState>(dlsym(library, "fake_cuda_state")) : nullptr;
  return state != nullptr ? state() : nullptr;
}

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("ZERO_TEST_DEVICE") != nullptr) GTEST_SKIP() << "a GPU is tried, and its libcudart is not ours";
    if (cuda_plugin().empty()) GTEST_SKIP() << "built without CUDA (ZERO_CUDA=ON builds it)";
    ASSERT_NE(fake_, nullptr) << "no fake libcudart beside the test";
  }
  FakeCuda& fake() { return *fake_; }
  static std::string refusal(std::string_view name) {
    return message_of<ConfigError>([name] { open_device(name); });
  }

 private:
  // A loaded libcudart stays, so a process has either the fake one or a GPU's.
  FakeCuda* fake_ = std::getenv("ZERO_TEST_DEVICE") != nullptr ? nullptr : fake_cuda();
};

TEST_F(CudaDevice, IsOpenedByItsName) {
  EXPECT_EQ(open_device("auto")->name(), "cuda:0");
  EXPECT_EQ(open_device("cuda")->name(), "cuda:0");
  EXPECT_EQ(open_device("cuda:1")->name(), "cuda:1");
  EXPECT_FALSE(open_device("cuda")->host_readable());
}

// Otherwise a thread of the driver could take SIGCHLD, and the launcher would not notice the end of its ranks. A rank's
// SIGTERM could end it before it has saved.
TEST_F(CudaDevice, BlocksSignalsDuringDriverCalls) {
  open_device("cuda");
  find_gpus(/*memory=*/true);
  EXPECT_FALSE(fake().asked_with_signals);
}

// With run.device auto. A named GPU is refused.
TEST_F(CudaDevice, MissingDriverFallsBackToHost) {
  const EnvironmentVariable driver("FAKE_CUDA_DRIVER", "0");
  expect_says(refusal("cuda"), {"run.device = cuda: there is no NVIDIA driver", "580"});
  EXPECT_EQ(open_device("auto")->name(), "host");
}

// With run.device auto. A named GPU is refused.
TEST_F(CudaDevice, MissingGpuFallsBackToHost) {
  const EnvironmentVariable devices("FAKE_CUDA_DEVICES", "0");
  expect_says(refusal("cuda:1"), {"there is no GPU", "CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(open_device("auto")->name(), "host");
}

TEST_F(CudaDevice, RefusesAnOldDriverEvenAutomatically) {
  const EnvironmentVariable driver("FAKE_CUDA_DRIVER", "12080");
  expect_says(refusal("cuda"), {"the driver is too old: it supports CUDA 12.8", "built with 13.", "580 or later"});
  expect_says(refusal("auto"), {"the driver is too old"});
}

TEST_F(CudaDevice, UnknownNumberListsTheKnown) {
  expect_says(refusal("cuda:2"), {"there are 2 GPUs", "use cuda:0 to cuda:1"});
  const EnvironmentVariable devices("FAKE_CUDA_DEVICES", "1");
  expect_says(refusal("cuda:1"), {"there is 1 GPU\n", "use cuda:0"});
}

// The free memory is read only on request.
TEST_F(CudaDevice, FindsNameAndFreeMemory) {
  const EnvironmentVariable free("FAKE_CUDA_FREE", "1048576");
  const GpusHere here = find_gpus(/*memory=*/true), names = find_gpus(/*memory=*/false);
  ASSERT_EQ(here.gpus.size(), 2U);
  EXPECT_EQ(here.gpus[1].name, "Fake GPU 1");
  EXPECT_EQ(here.gpus[1].capability, 90);
  EXPECT_EQ(here.gpus[1].free_bytes, 1048576);
  EXPECT_EQ(names.gpus[1].free_bytes, -1);
  EXPECT_TRUE(here.driver.starts_with("13."));
  EXPECT_EQ(free_bytes_of(*open_device("cuda:1")), 1048576);
  EXPECT_EQ(free_bytes_of(*open_device("cpu")), std::nullopt);
  EXPECT_EQ(gpu_name("cuda:1"), "Fake GPU 1");
  EXPECT_EQ(gpu_name("cuda:7"), "");
  EXPECT_EQ(gpu_name("host"), "");
}

TEST_F(CudaDevice, NeedsARecentDriver) {
  {
    const EnvironmentVariable driver("FAKE_CUDA_DRIVER", "0");
    const GpusHere here = find_gpus(/*memory=*/true);
    EXPECT_TRUE(here.gpus.empty() && here.none_here && here.driver.empty());
    EXPECT_EQ(here.reason, "there is no NVIDIA driver");
  }
  const EnvironmentVariable driver("FAKE_CUDA_DRIVER", "12080");
  const GpusHere here = find_gpus(/*memory=*/true);
  EXPECT_TRUE(here.gpus.empty() && !here.none_here);
  EXPECT_EQ(here.driver, "12.8");
  expect_says(here.reason, {"the driver is too old"});
}

TEST_F(CudaDevice, ThatIsTooOldIsRefused) {
  const EnvironmentVariable capability("FAKE_CUDA_CAPABILITY", "75");
  expect_says(refusal("auto"), {"cuda:0 has compute capability 7.5, and zero.cpp needs 8.0"});
}

TEST_F(CudaDevice, ThatSomebodyElseUsesIsRefused) {
  {
    const EnvironmentVariable full("FAKE_CUDA_FAIL", "cudaSetDevice=2");
    expect_says(refusal("auto"), {"cuda:0 has no memory left for another program", "nvidia-smi"});
  }
  const EnvironmentVariable taken("FAKE_CUDA_FAIL", "cudaSetDevice=46");
  expect_says(refusal("cuda:1"), {"cuda:1 is in use by another program", "nvidia-smi"});
}

TEST_F(CudaDevice, FailedStreamsLeaveNothingBehind) {
  const int before = fake().num_streams;
  const EnvironmentVariable failing("FAKE_CUDA_FAIL", "cudaStreamCreateWithFlags=999");
  expect_says(refusal("cuda"), {"cuda:0 cannot be used", "999"});
  EXPECT_EQ(fake().num_streams, before);
}

// The memory is also freed.
TEST_F(CudaDevice, MemoryIsZeroedAndAligned) {
  const auto device = open_device("cuda");
  const int memories = fake().num_memories, pinned = fake().num_pinned;
  {
    const Allocation memory = device->allocate(5000), host = device->allocate_pinned(5000);
    ASSERT_EQ(memory.size(), 5000U);
    ASSERT_EQ(host.size(), 5000U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(host.data()) % 4096, 0U);
    for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(memory.data()[i] | host.data()[i], std::byte{0}) << i;
    EXPECT_EQ(fake().num_memories, memories + 1);
    EXPECT_EQ(fake().num_pinned, pinned + 1);
  }
  EXPECT_EQ(fake().num_memories, memories);
  EXPECT_EQ(fake().num_pinned, pinned);
  EXPECT_FALSE(device->allocate(0));
  EXPECT_FALSE(device->allocate_pinned(0));
}

TEST_F(CudaDevice, FullOneNamesRequestAndFree) {
  const auto device = open_device("cuda:1");
  const EnvironmentVariable full("FAKE_CUDA_FAIL", "cudaMalloc=2,cudaHostAlloc=2");
  const std::string message = message_of<ConfigError>([&] { static_cast<void>(device->allocate(3 << 20)); });
  expect_says(message, {"memory = 3.00 MiB: cuda:1 has 5 MiB of its 81920 MiB free", "nvidia-smi"});
  const std::string pinned = message_of<ConfigError>([&] { static_cast<void>(device->allocate_pinned(3 << 20)); });
  expect_says(pinned, {"zero.host_memory = 3.00 MiB: the system cannot pin that much"});
}

TEST_F(CudaDevice, FullOneRetriesOnceAfterRelease) {
  const auto device = open_device("cuda:1");
  std::optional<EnvironmentVariable> full(std::in_place, "FAKE_CUDA_FAIL", "cudaMalloc=2");
  int num_calls = 0;
  device->when_short([&] { ++num_calls; });
  EXPECT_THROW(static_cast<void>(device->allocate(100)), ConfigError) << "the callback freed nothing";
  EXPECT_EQ(num_calls, 1);
  device->when_short([&] { full.reset(); });
  EXPECT_EQ(device->allocate(100).size(), 100U);
}

TEST_F(CudaDevice, CopiesAndFills) {
  const auto device = open_device("cuda");
  const Allocation host = device->allocate_pinned(100), memory = device->allocate(100);
  device->fill(Lane::kCompute, memory.bytes(), std::byte{7});
  device->copy(Lane::kDown, host.bytes(), memory.bytes());
  EXPECT_EQ(host.data()[99], std::byte{7});
  device->copy(Lane::kUp, {}, {});
  EXPECT_THROW(device->copy(Lane::kUp, memory.bytes().first(3), host.bytes()), DeviceError);
}

TEST_F(CudaDevice, LendsTheEventsOfMarksAgain) {
  const int events = fake().num_events;
  {
    std::optional<Mark> kept;
    {
      const auto device = open_device("cuda");
      const int waits = fake().num_waits;
      for (int i = 0; i < 10; ++i) {
        const Mark mark = device->mark(Lane::kUp);
        const Mark copy = mark;
        device->wait(Lane::kUpdate, copy);
        device->wait(Lane::kUpdate, {});
        device->join(mark);
        device->join({});
      }
      EXPECT_EQ(fake().num_events, events + 1);
      EXPECT_EQ(fake().num_waits, waits + 10);
      kept = device->mark(Lane::kDown);
    }
    EXPECT_EQ(fake().num_events, events + 1) << "a mark may outlive its device";
  }
  EXPECT_EQ(fake().num_events, events);
}

TEST_F(CudaDevice, MeasuresTimeByDriversClock) {
  const auto device = open_device("cuda:1");
  const Mark begin = device->timed_mark(Lane::kUp), between = device->mark(Lane::kUp);
  const Mark end = device->timed_mark(Lane::kCompute);
  EXPECT_NEAR(device->seconds_between(begin, end).value(), 2e-3, 1e-9);
  {
    const EnvironmentVariable not_ready("FAKE_CUDA_FAIL", "cudaEventElapsedTime=600");
    EXPECT_FALSE(device->seconds_between(begin, end)) << "one is not done";
  }
  expect_says(message_of<DeviceError>([&] { device->seconds_between(begin, between); }),
              {"cuda:1: read times of marks"});
}

TEST_F(CudaDevice, OnlyTimedMarksUseTimedEvents) {
  const int events = fake().num_events;
  const auto device = open_device("cuda");
  for (int i = 0; i < 10; ++i) {
    const Mark timed = device->timed_mark(Lane::kUp), plain = device->mark(Lane::kUp);
  }
  EXPECT_EQ(fake().num_events, events + 2);
}

TEST_F(CudaDevice, NamesItsGpuAndLendsStreams) {
  const auto first = open_device("cuda:0"), again = open_device("cuda:0"), second = open_device("cuda:1");
  EXPECT_TRUE(first->identity().starts_with("0000:01:00.0 of machine "));
  EXPECT_GT(first->identity().size(), std::string_view("0000:01:00.0 of machine ").size());
  EXPECT_EQ(first->identity(), again->identity());
  EXPECT_NE(first->identity(), second->identity());
  EXPECT_NE(first->native_queue(Lane::kGather), nullptr);
  EXPECT_NE(first->native_queue(Lane::kGather), first->native_queue(Lane::kReduce));
  int stream_of_torch = 0;
  first->adopt(&stream_of_torch);
  EXPECT_EQ(first->native_queue(Lane::kCompute), &stream_of_torch);
}

TEST_F(CudaDevice, DriverDecidesWhenAMarkEnds) {
  const auto device = open_device("cuda");
  const Mark mark = device->mark(Lane::kUp);
  fake().num_ready_after = 2;
  EXPECT_FALSE(device->done(mark));
  EXPECT_FALSE(device->done(mark));
  EXPECT_TRUE(device->done(mark));
  EXPECT_TRUE(device->done({}));
  fake().num_ready_after = 0;
}

TEST_F(CudaDevice, FailureNamesDeviceAndOperation) {
  const auto device = open_device("cuda:1");
  const Allocation host = device->allocate_pinned(8), memory = device->allocate(8);
  const Mark mark = device->mark(Lane::kUp);
  const auto message = [&](const char* failing, auto&& use) {
    const EnvironmentVariable variable("FAKE_CUDA_FAIL", failing);
    return message_of<DeviceError>(use);
  };
  expect_says(message("cudaMemcpyAsync=700", [&] { device->copy(Lane::kUp, memory.bytes(), host.bytes()); }),
              {"cuda:1: copy: error 700"});
  expect_says(message("cudaMemsetAsync=700", [&] { device->fill(Lane::kUp, memory.bytes(), {}); }),
              {"cuda:1: fill: error 700"});
  expect_says(message("cudaEventRecord=700", [&] { static_cast<void>(device->mark(Lane::kUp)); }),
              {"cuda:1: mark: error 700"});
  expect_says(message("cudaStreamWaitEvent=700", [&] { device->wait(Lane::kUp, mark); }), {"cuda:1: wait: error 700"});
  expect_says(message("cudaEventQuery=700", [&] { static_cast<void>(device->done(mark)); }),
              {"cuda:1: look at a mark: error 700"});
  expect_says(message("cudaEventSynchronize=700", [&] { device->join(mark); }),
              {"cuda:1: wait on the host: error 700"});
  expect_says(message("cudaMalloc=700", [&] { static_cast<void>(device->allocate(8)); }),
              {"cuda:1: allocate: error 700"});
}

template <typename Arguments>
void expect_launch(Device& device, FakeCuda& fake, const Kernel& kernel, const Arguments& arguments,
                   std::string_view code) {
  const int before = fake.num_launches;
  run(device, Lane::kUpdate, kernel, arguments, {});
  EXPECT_GT(fake.num_launches, before) << kernel.name;
  EXPECT_NE(std::string_view(fake.last_kernel).find(code), std::string_view::npos)
      << kernel.name << " launched " << fake.last_kernel;
}

template <typename Constants>
UpdateSlices<Constants> two_slices() {
  UpdateSlices<Constants> slices;
  for (int i = 0; i < 2; ++i) slices.add({.numel = 100000}, {});
  return slices;
}

TEST_F(CudaDevice, HasCodeForEveryKernel) {
  const auto device = open_device("cuda");
  const auto launch = [&](const Kernel& kernel, const auto& arguments, std::string_view code) {
    expect_launch(*device, fake(), kernel, arguments, code);
  };
  launch(kCast, ElementArguments{.numel = 9}, "cast_kernel");
  launch(kAdd, ElementArguments{.numel = 9}, "add_kernel");
  launch(kRound, ElementArguments{.from_dtype = DType::kBFloat16, .numel = 9}, "round_kernel");
  launch(kAverage, AverageArguments{.numel = 9}, "average_kernel");
  launch(kExchange, ExchangeArguments{.numel = 9}, "exchange_kernel");
  launch(kOuterSubtract, OuterArguments{.numel = 9}, "outer_subtract_kernel");
  launch(kOuterMove, OuterArguments{.numel = 9}, "outer_move_kernel");
  launch(kMix, MixArguments{.numel = 9}, "mix_kernel");
  launch(kSgd, two_slices<SgdConstants>(), "SgdConstants");
  launch(kAdam, two_slices<AdamConstants>(), "AdamConstants");
  launch(kLion, two_slices<LionConstants>(), "LionConstants");
  launch(kLamb, two_slices<LambConstants>(), "LambConstants");
  launch(kMuonDirect, two_slices<MuonDirectionConstants>(), "MuonDirectionConstants");
  launch(kMuonStep, two_slices<MuonStepConstants>(), "MuonStepConstants");
  launch(kAdamW8bit, two_slices<AdamConstants>(), "adamw8bit_kernel");
  launch(kLambSums, LambSumsArguments{.slices = two_slices<LambConstants>()}, "lamb_sums_kernel");
  StatsLimbs stats;
  launch(kRankSum, RankSumArguments{.num_in = 2, .numel = 9, .stats = &stats}, "rank_sum_kernel");
  launch(kFactorSquares, FactorSquaresArguments{.span = {.numel = 9}, .matrix = {3, 3}}, "column_squares_kernel");
  launch(kFactor, FactorArguments{.numel = 9}, "factor_kernel");
  launch(kRowMean, RowMeanArguments{.numel = 9}, "row_mean_kernel");
  launch(kAdafactorSums, AdafactorSumsArguments{.slices = two_slices<FactoredConstants>()}, "adafactor_sums_kernel");
  launch(kAdafactor, two_slices<FactoredConstants>(), "adafactor_kernel");
  launch(kMatrixSquares, MatrixNormArguments{.numel = 9}, "matrix_squares_kernel");
  launch(kMatrixNorm, MatrixNormArguments{.numel = 9}, "matrix_norm_kernel");
  launch(kMatrixDivide, MatrixNormArguments{.numel = 9}, "matrix_divide_kernel");
  launch(kMatrixTranspose, TransposeArguments{.rows = 3, .columns = 3}, "matrix_transpose_kernel");
  launch(kMatrixProduct, MatrixProduct{.rows = 3, .columns = 3, .inner = 3}, "matrix_product_kernelILi1E");
  launch(kMatrixProduct, MatrixProduct{.rows = 1 << 16, .columns = 1 << 16, .inner = 3}, "matrix_product_kernelILi2E");
}

// No kernel for no elements.
TEST_F(CudaDevice, LaunchesOneKernelPerSpanList) {
  const auto device = open_device("cuda");
  const int before = fake().num_launches;
  run(*device, Lane::kUpdate, kAdam, two_slices<AdamConstants>(), {});
  EXPECT_EQ(fake().num_launches, before + 1);
  run(*device, Lane::kUpdate, kAdam, AdamArguments{}, {});
  run(*device, Lane::kUpdate, kCast, ElementArguments{}, {});
  run(*device, Lane::kReduce, kRankSum, RankSumArguments{.num_in = 1}, {});
  EXPECT_EQ(fake().num_launches, before + 1);
}

TEST_F(CudaDevice, UpdatesWithTheFewestKernels) {
  const auto device = open_device("cuda");
  constexpr int kSpans = 2 * static_cast<int>(AdamArguments::kMost) + 3;
  std::vector<float> some(64);
  const auto launches = [&](const UpdateRule& rule, int num_spans) {
    UpdateSpan span{.parameter = some.data(), .gradient = std::as_bytes(std::span(some)).data(), .numel = 64};
    for (std::size_t state = 0; state < rule.states().size(); ++state) span.states[state] = some.data();
    const std::vector<SpanUpdate> updates(static_cast<std::size_t>(num_spans), {span, {.step = 2, .lr = 1e-3}});
    const int before = fake().num_launches;
    rule.queue(*device, Lane::kUpdate, updates);
    return fake().num_launches - before;
  };
  for (const OptimizerOptions& options : std::vector<OptimizerOptions>{AdamWOptions{}, SgdOptions{}, LionOptions{}}) {
    const auto rule = make_update_rule(options);
    EXPECT_EQ(launches(*rule, 0), 0) << rule->name();
    EXPECT_EQ(launches(*rule, 12), 1) << rule->name();
    EXPECT_EQ(launches(*rule, kSpans), 3) << rule->name();
  }
  const auto averaged = with_average(make_update_rule(AdamWOptions{}), 0.9);
  EXPECT_EQ(launches(*averaged, 12), 1 + 12) << "an average is a kernel of its own for each span";
}

TEST_F(CudaDevice, RefusesKernelsWithoutCode) {
  const auto device = open_device("cuda");
  const Kernel unknown{"turn_around", nullptr};
  const std::string message =
      message_of<DeviceError>([&] { run(*device, Lane::kUpdate, unknown, ElementArguments{}, {}); });
  expect_says(message, {"cuda:0 has no code for the kernel 'turn_around'"});
}

TEST_F(CudaDevice, NamesTheKernelThatFailed) {
  const auto device = open_device("cuda");
  const FactorSquaresArguments too_wide{.span = {.numel = 9}, .matrix = {1, std::int64_t{1} << 31}};
  expect_says(message_of<DeviceError>([&] { run(*device, Lane::kReduce, kFactorSquares, too_wide, {}); }),
              {"cuda:0: factor_squares: error 1"});
}

}  // namespace
}  // namespace zero
