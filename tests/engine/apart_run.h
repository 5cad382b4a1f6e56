// Apart: the results of copies of a scripted model that train apart, on ranks that are threads.
//
//   const Apart seen = train_apart(4, small_specs(), {.group = 2, .local = LocalSteps{.steps = 2}}, 5);
//   EXPECT_EQ(seen.own[2], seen.own[3]);                     // two ranks of a copy
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/scripted_run.h"

namespace zero {

using ApartBits = std::vector<std::uint32_t>;

// One element for each rank.
struct Apart {
  std::vector<ApartBits> own, shared;  // weights of the rank's copy; shared weights; no padding
  std::vector<std::vector<StepReport>> steps;
  std::vector<EngineReport> reports;
};

inline ApartBits apart_bits(ScriptedModel& model) {
  ApartBits bits;
  for (const Unit& unit : model.units()) {
    model.engine().states().read_full_precision(unit.index, [&](std::span<const float> whole) {
      for (std::int64_t i = 0; i < unit.numel; ++i)
        bits.push_back(std::bit_cast<std::uint32_t>(whole[static_cast<std::size_t>(i)]));
    });
  }
  return bits;
}

using AfterStep = std::function<void(ScriptedModel&, int step)>;

// `after` runs after each step.
inline Apart train_apart(
    int world, const std::vector<ParamSpec>& specs, const AttachOptions& options, int steps,
    const AfterStep& after = [](ScriptedModel&, int) {}) {
  Apart seen;
  const auto size = static_cast<std::size_t>(world);
  seen.own.resize(size);
  seen.shared.resize(size);
  seen.steps.resize(size);
  seen.reports.resize(size);
  on_ranks(world, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    ScriptedModel model(comm, specs, options);
    for (int step = 0; step < steps; ++step) {
      seen.steps[rank].push_back(model.train(step, options.accumulate));
      after(model, step);
    }
    seen.reports[rank] = model.engine().report();
    seen.own[rank] = apart_bits(model);
    if (!options.local) return;
    model.engine().states().exchange_averages();
    seen.shared[rank] = apart_bits(model);
    model.engine().states().exchange_averages();
    EXPECT_EQ(apart_bits(model), seen.own[rank]) << "two exchanges change nothing";
  });
  return seen;
}

inline std::vector<double> apart_values(const ApartBits& bits) {
  std::vector<double> values;
  for (const std::uint32_t bit : bits) values.push_back(std::bit_cast<float>(bit));
  return values;
}

inline void expect_apart_near(const ApartBits& seen, const std::vector<double>& expected, double tolerance,
                              const std::string& where) {
  const std::vector<double> numbers = apart_values(seen);
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ASSERT_NEAR(numbers[i], expected[i], tolerance) << where << ", " << i;
}

inline std::string place_of(const AttachOptions& options, DType dtype) {
  return fmt::format("group {}, stage {}{}, {}", options.group, options.stage,
                     options.device_memory.kind == MemoryBudget::Kind::kMin ? ", min" : "", name_of(dtype));
}

}  // namespace zero
