#include "zero/torch/seam/torch_device.h"

#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include "zero/base/error/error.h"
#include "zero/device/host_device.h"

#include "tests/support/expect_says.h"

namespace zero {
namespace {

// A GPU is requested on a machine without one, or with a libtorch without CUDA. The error has the reason and the wheel
// with CUDA.
TEST(TorchDevice, RefusesCpuOnlyLibtorch) {
  const std::string why_not = try_torch_cuda();
  if (why_not.empty()) GTEST_SKIP() << "this libtorch uses a GPU";
  const std::string said = message_of<ConfigError>([] { open_torch_cuda("cuda:1"); });
  expect_says(said, {"run.device = cuda:1", why_not, std::string("pip install torch==") + TORCH_VERSION, "cu130",
                     "or run.device cpu"});
}

TEST(TorchDevice, MainMemoryIsLibtorchsCpu) {
  HostDevice host;
  EXPECT_EQ(place_of(host), c10::Device(c10::DeviceType::CPU));
  adopt_stream(host);
  EXPECT_EQ(held_by_torch(place_of(host)), 0);
}

// The CPU has one stream. Another number stands for another stream of a GPU.
TEST(TorchDevice, AnotherStreamIsRefused) {
  HostDevice host;
  EXPECT_FALSE(adopt_stream(host).has_value());
  require_stream(std::nullopt);
  const c10::Stream current = c10::impl::VirtualGuardImpl(c10::DeviceType::CPU).getStream(c10::Device("cpu"));
  require_stream(current);
  const c10::Stream other(c10::Stream::UNSAFE, current.device(), current.id() + 7);
  expect_says(message_of<ConfigError>([&] { require_stream(other); }),
              {"another CUDA stream", "call attach() within the same c10::cuda::CUDAStreamGuard"});
}

TEST(TorchDevice, GpuBackwardStaysOnCallersThread) {
  const auto has_threads = [] { return c10::AutogradState::get_tls_state().get_multithreading_enabled(); };
  ASSERT_TRUE(has_threads());
  {
    const BackwardOnCaller on_cpu(c10::Device(c10::DeviceType::CPU));
    EXPECT_TRUE(has_threads());
    const BackwardOnCaller on_gpu(c10::Device("cuda:0"));
    EXPECT_FALSE(has_threads());
  }
  EXPECT_TRUE(has_threads());
}

// libtorch reports both switches.
TEST(TorchDevice, NumericsSetBothComparedSwitches) {
  at::Context& context = at::globalContext();
  set_gpu_numerics({.tf32 = true});
  EXPECT_TRUE(context.allowTF32CuBLAS());
  EXPECT_TRUE(context.allowTF32CuDNN());
  EXPECT_FALSE(context.deterministicAlgorithms());
  set_gpu_numerics({});
  EXPECT_FALSE(context.allowTF32CuBLAS());
  EXPECT_FALSE(context.allowTF32CuDNN());
}

// Determinism also sets the workspace of matrix products.
TEST(TorchDevice, DeterminismCoversOperatorsAndWorkspace) {
  at::Context& context = at::globalContext();
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  set_gpu_numerics({.deterministic = true});
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  context.setDeterministicAlgorithms(false, false);
  context.setDeterministicCuDNN(false);
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
}

}  // namespace
}  // namespace zero
