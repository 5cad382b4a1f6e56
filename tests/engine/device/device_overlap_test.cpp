// Overlap on a device: which operations run in parallel, shown by their order, without a clock.
#include <cstdint>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

constexpr int kWorld = 2;

// Runs `body` in the third step of a model on two ranks. Each device starts work only when the host waits for it.
void in_third_step(const AttachOptions& options, const std::function<void(ScriptedModel&, RecordedDevice&)>& body) {
  on_ranks(kWorld, [&](Communicator& comm) {
    RecordedDevice device({.far_behind = true});
    EngineHost host;
    host.device = &device;
    ScriptedModel model(comm, small_specs(DType::kFloat32, /*with_frozen=*/false), options, host);
    for (int step = 0; step < 2; ++step) model.train(step);
    body(model, device);
    model.compute = [] {};
    model.engine().step(0.01);
  });
}

// The operations that read the units in a forward pass, in order.
std::vector<std::uint64_t> operators_of(ScriptedModel& model, RecordedDevice& device) {
  std::vector<std::uint64_t> operators;
  model.compute = [&] { operators.push_back(device.clocks().size()); };
  model.forward(model.all_units());
  model.compute = [] {};
  return operators;
}

TEST(DeviceOverlap, UnitUploadOverlapsEarlierOperators) {
  AttachOptions on_device{.stage = 3}, on_host{.stage = 3};
  on_host.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 1}};
  for (const AttachOptions& options : {on_device, on_host}) {
    in_third_step(options, [](ScriptedModel& model, RecordedDevice& device) {
      const std::vector<std::uint64_t> operators = operators_of(model, device);
      ASSERT_EQ(operators.size(), model.units().size());
      const auto clock_of = [&](std::uint64_t operation) { return device.clocks()[operation - 1]; };
      for (std::size_t i = 1; i < operators.size(); ++i) {
        const std::uint64_t before = operators[i - 1];
        const std::uint64_t up = clock_of(operators[i]).of(actor_of(Lane::kUp));
        EXPECT_GT(up, clock_of(before).of(actor_of(Lane::kUp))) << "the operators of unit " << i << " wait for it";
        EXPECT_FALSE(clock_of(up).covers(actor_of(Lane::kCompute), before)) << "unit " << i;
      }
      model.backward(model.all_units(), 2, 0);
    });
  }
}

TEST(DeviceOverlap, BackwardOverlapsGradientTransfer) {
  for (const int stage : {0, 2, 3}) {
    in_third_step({.stage = stage}, [stage](ScriptedModel& model, RecordedDevice& device) {
      model.forward(model.all_units());
      std::size_t num_units = 0, num_on_the_way = 0;
      model.compute = [&] {
        const bool down = device.done(device.mark(Lane::kReduce));
        ++num_units;
        num_on_the_way += down ? 0 : 1;
      };
      model.backward(model.all_units(), 2, 0);
      EXPECT_EQ(num_units, model.units().size());
      EXPECT_EQ(num_on_the_way, num_units - 1) << "stage " << stage << ": no transfer precedes the first unit";
    });
  }
}

// States are on the host, and units have several tiles. The devices run late, in a random order.
TEST(DeviceOverlap, HostUpdatesWhileDeviceWorks) {
  for (const bool delayed : {false, true}) {
    AttachOptions options{.stage = 3, .delayed_update = delayed};
    if (delayed) options.exact_steps = 0;
    options.offload.fractions = {.optimizer = {.host = 1}};
    std::vector<ParamSpec> specs;
    for (const char* const name : {"h.0.weight", "h.1.weight", "h.2.weight"})
      specs.push_back({.name = name, .shape = {3, TileStream::kTileNumel}});
    double updated_meanwhile = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      RecordedDevice device({.late = seed});
      EngineHost host;
      host.device = &device;
      on_ranks(1, [&](Communicator& comm) {
        ScriptedModel model(comm, specs, options, host);
        for (int step = 0; step < 3; ++step) model.train(step);
        updated_meanwhile += model.engine().report().updated_meanwhile_seconds;
      });
    }
    EXPECT_GT(updated_meanwhile, 0) << (delayed ? "delayed" : "exact");
  }
}

}  // namespace
}  // namespace zero
