// Law 2 for any placement: random parts of each state are on the host and on disk, at every stage, world and type. The
// bits equal those of a run that keeps all states on the device. RC_PARAMS="max_success=2000" draws more cases than 25
// (100 in the full tier).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/engine/scripted_run.h"
#include "tests/support/random_fractions.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

[[maybe_unused]] const bool sampled = sample_properties(25);

struct Case {
  int world = 1;
  int stage = 0;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
  Reduce reduce = Reduce::kEach;
  std::vector<ParamSpec> specs;
  int absent = -1;  // gets no gradient in the last step; parameter 0 always does
};

// Parameters with a few elements up to several blocks of a shard. One in five is frozen, but never the first.
std::vector<ParamSpec> random_specs(DType dtype) {
  std::vector<ParamSpec> specs;
  const int count = *rc::gen::inRange(1, 7);
  for (int i = 0; i < count; ++i) {
    const auto numel =
        *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 9000), rc::gen::inRange<std::int64_t>(9000, 60000));
    specs.push_back({.name = "h." + std::to_string(i / 2) + ".p" + std::to_string(i),
                     .shape = {numel},
                     .dtype = dtype,
                     .trainable = i == 0 || *rc::gen::inRange(0, 5) > 0,
                     .own_unit = *rc::gen::inRange(0, 4) == 0});
  }
  return specs;
}

Case random_case() {
  Case c{.world = *rc::gen::element(1, 2, 3, 4),
         .stage = *rc::gen::element(0, 1, 2, 3, 3),
         .dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16),
         .accumulate = *rc::gen::element(1, 2, 3),
         .reduce = *rc::gen::element(Reduce::kEach, Reduce::kEach, Reduce::kLast)};
  c.specs = random_specs(c.dtype);
  if (*rc::gen::arbitrary<bool>()) c.absent = *rc::gen::inRange(1, static_cast<int>(c.specs.size()) + 1);
  return c;
}

OffloadOptions random_offload(const Case& c, const std::string& folder) {
  const bool each = c.accumulate == 1 || c.reduce == Reduce::kEach;
  OffloadOptions offload{
      .fractions = tests::random_state_fractions(c.stage, each), .automatic = false, .disk = {folder}};
  if (*rc::gen::arbitrary<bool>()) offload.host_memory.kind = MemoryBudget::Kind::kMin;
  if (*rc::gen::inRange(0, 3) == 0) offload.link_bytes_per_second = 4e9;
  offload.checksums = *rc::gen::arbitrary<bool>();
  return offload;
}

ScriptedRun train(const Case& c, int stage, const OffloadOptions& offload, MemoryBudget device) {
  constexpr int kSteps = 3;
  const auto before = [&c](ScriptedModel& model, int step) {
    const int absent = step == kSteps - 1 ? c.absent : -1;
    model.has_gradient = [absent](int param) { return param != absent; };
  };
  return scripted_run(c.world, c.specs,
                      {.stage = stage,
                       .clip = 1.5,
                       .reduce = c.reduce,
                       .accumulate = c.accumulate,
                       .device_memory = device,
                       .offload = offload},
                      {.steps = kSteps, .before = before});
}

std::string text_of(const TierFractions& fractions) {
  return fmt::format("{{host {}, disk {}}}", fractions.host, fractions.disk);
}

std::string text_of(const Case& c, const OffloadOptions& offload, const MemoryBudget& device) {
  std::string sizes;
  for (const ParamSpec& spec : c.specs)
    sizes += fmt::format(" {}: {}{}{}", spec.name, spec.shape.front(), spec.trainable ? "" : " frozen",
                         spec.own_unit ? " alone" : "");
  const auto least = [](const MemoryBudget& memory) { return memory.kind == MemoryBudget::Kind::kMin ? ", min" : ""; };
  return fmt::format(
      "{} ranks, stage {}, {}, {} micro-batches, reduce {}, {} absent, parameter {}, gradient {}, optimizer {}, "
      "device{}, "
      "host{}, link {}, checksums {}:{}",
      c.world, c.stage, name_of(c.dtype), c.accumulate, c.reduce == Reduce::kEach ? "each" : "last", c.absent,
      text_of(offload.fractions.parameter), text_of(offload.fractions.gradient), text_of(offload.fractions.optimizer),
      least(device), least(offload.host_memory), offload.link_bytes_per_second, offload.checksums, sizes);
}

TEST(OffloadPropertySlowOnAnyDevice, AnyPlacementMatchesDeviceBits) {
  const TemporaryFolder folder;
  const bool held = rc::check([&] {
    const Case c = random_case();
    const OffloadOptions offload = random_offload(c, folder.path().string());
    const MemoryBudget device{*rc::gen::element(MemoryBudget::Kind::kAuto, MemoryBudget::Kind::kMin)};
    RC_LOG() << text_of(c, offload, device);
    const ScriptedRun resident = train(c, 0, {}, {}), seen = train(c, c.stage, offload, device);
    RC_ASSERT(seen.norms == resident.norms);
    RC_ASSERT(seen.checksums == resident.checksums);
    RC_ASSERT(seen.weights == resident.weights);
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace zero
