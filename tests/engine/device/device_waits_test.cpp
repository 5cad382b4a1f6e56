// Each wait of an engine on a device is needed: without it there is a race or other bits, or other waits imply it.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/scripted_run.h"
#include "tests/engine/thread_link.h"
#include "tests/support/device/recorded_device.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct Program {
  std::string name;
  AttachOptions options;
  DType dtype = DType::kFloat32;
  int steps = 2;
  std::function<void(ScriptedModel&, int step)> before = [](ScriptedModel&, int) {};
  int world = 2;
  bool linked = false;     // devices exchange bytes without the host
  bool on_a_disk = false;  // the order of operations depends on when the disk answers
  std::vector<ParamSpec> specs = small_specs(dtype);
};

// Two units. On two ranks, a shard of each is two blocks of a tier.
std::vector<ParamSpec> large_specs() {
  return {{.name = "wte", .shape = {128, 128}, .own_unit = true},
          {.name = "head", .shape = {128, 128}, .own_unit = true}};
}

// An unannounced backward pass: it adds to the sums of the first pass.
void second_backward(ScriptedModel& model, int step) {
  model.forward(model.all_units());
  model.backward(model.all_units(), step, 7);
}

AttachOptions with_states(const TierFractions& fractions, int accumulate = 1) {
  AttachOptions options{.stage = 3, .accumulate = accumulate};
  options.offload.fractions = {.parameter = fractions, .gradient = fractions, .optimizer = fractions};
  return options;
}

void overflow_in_second_step(ScriptedModel& model, int step) {
  const float factor = step == 1 ? std::numeric_limits<float>::infinity() : 1.0F;
  model.edit = [factor](int, std::int64_t, float value) { return factor * value; };
}

// Exchanges weights with their averages, and back, while operators may still read them.
void evaluate_averages(ScriptedModel& model, int step) {
  for (int i = 0; step == 1 && i < 2; ++i) {
    model.forward(model.all_units());
    model.engine().states().exchange_averages();
  }
}

// The host writes all weights after an update, while operators may still read them.
void write_weights(ScriptedModel& model, int step) {
  if (step != 1) return;
  StateAccess& states = model.engine().states();
  states.pause();
  for (const int evaluated : {0, 1}) {
    if (evaluated == 1) model.forward(model.all_units());
    states.pause();
    for (const int unit : model.all_units())
      states.write_held(unit, 0, [](std::int64_t first, std::span<float> elements) {
        for (float& element : elements) element = 0.01F * static_cast<float>(first++ % 7);
      });
  }
}

// The host reads and writes the states of rows and columns.
void double_factors(ScriptedModel& model, int step) {
  if (step == 0) return;
  StateAccess& states = model.engine().states();
  states.pause();
  for (const FactorStates::State& state : states.factors())
    for (float& value : state.values) value *= 2;
}

// The host reads all states, as a checkpoint does, after an update and after a forward pass.
void read_states(ScriptedModel& model, int step) {
  if (step == 0) return;
  StateAccess& states = model.engine().states();
  for (const int evaluated : {0, 1}) {
    if (evaluated == 1) model.forward(model.all_units());
    states.pause();
    double sum = 0;
    for (const int unit : model.all_units())
      for (int state = 0; state < states.contents().num_saved_states(unit); ++state)
        states.read_shard(unit, state, [&sum](std::int64_t, std::span<const std::byte> elements) {
          for (const std::byte byte : elements) sum += std::to_integer<int>(byte);
        });
    model.add_to_checksum(sum);
  }
}

std::vector<Program> programs(const std::string& folder) {
  const DType low = DType::kBFloat16;
  AttachOptions half{.stage = 3}, min{.stage = 3}, disk = with_states({.disk = 1});
  half.offload.fractions = {.optimizer = {.host = 0.5}};
  AttachOptions lamb = half, adafactor = half, muon = half, part = half, below{.stage = 0, .accumulate = 2},
                whole{.stage = 1};
  part.stage = 2;
  for (AttachOptions* options : {&below, &whole}) options->offload.fractions = {.optimizer = {.host = 1}};
  lamb.optimizer = LambOptions{};
  adafactor.optimizer = AdafactorOptions{};
  muon.optimizer = MuonOptions{};
  min.device_memory = MemoryBudget::parse("min");
  disk.offload.disk = {folder};
  AttachOptions coded{.stage = 3, .accumulate = 2}, late = half;
  coded.wire = {.gather = WireCodec::kInt8, .reduce = WireCodec::kInt8};
  late.delayed_update = true;
  late.exact_steps = 1;
  AttachOptions parts{.stage = 3, .secondary_group = 2, .accumulate = 2};
  parts.device_memory = MemoryBudget::parse("min");
  return {
      {.name = "stage 0, a step skipped", .options = {.stage = 0}, .steps = 3, .before = overflow_in_second_step},
      {.name = "stage 0, bf16, micro-batches", .options = {.stage = 0, .accumulate = 2}, .dtype = low},
      {.name = "stage 0, bf16, weights written", .options = {.stage = 0}, .dtype = low, .before = write_weights},
      {.name = "stage 1", .options = {.stage = 1}},
      {.name = "stage 1, averages", .options = {.stage = 1, .ema = 0.9}, .before = evaluate_averages},
      {.name = "stage 2, micro-batches", .options = {.stage = 2, .accumulate = 2}},
      {.name = "stage 3", .options = {.stage = 3}, .steps = 3},
      {.name = "stage 3, bf16, micro-batches", .options = {.stage = 3, .accumulate = 2}, .dtype = low},
      {.name = "stage 3, bf16, weights written", .options = {.stage = 3}, .dtype = low, .before = write_weights},
      {.name = "stage 3, the smallest budget", .options = min},
      {.name = "stage 3, half of the optimizer on the host", .options = half, .dtype = low},
      {.name = "stage 3, states on the host", .options = with_states({.host = 1})},
      {.name = "stage 3, states on the host, micro-batches", .options = with_states({.host = 1}, 2)},
      {.name = "stage 1, lamb", .options = {.stage = 1, .optimizer = LambOptions{}}},
      {.name = "stage 3, lamb, half of the optimizer on the host", .options = lamb, .dtype = low},
      {.name = "stage 0, adafactor", .options = {.stage = 0, .optimizer = AdafactorOptions{}}},
      {.name = "stage 3, adafactor, read and written",
       .options = {.stage = 3, .optimizer = AdafactorOptions{}},
       .steps = 3,
       .before = double_factors},
      {.name = "stage 3, adafactor, half of the optimizer on the host", .options = adafactor, .dtype = low},
      {.name = "stage 0, the optimizer on the host, micro-batches", .options = below, .dtype = low},
      {.name = "stage 1, the optimizer on the host", .options = whole},
      {.name = "stage 2, half of the optimizer on the host", .options = part, .dtype = low},
      {.name = "stage 0, muon, micro-batches", .options = {.stage = 0, .optimizer = MuonOptions{}, .accumulate = 2}},
      {.name = "stage 1, muon", .options = {.stage = 1, .optimizer = MuonOptions{}}},
      {.name = "stage 3, muon, averages",
       .options = {.stage = 3, .optimizer = MuonOptions{}, .ema = 0.9},
       .dtype = low,
       .before = evaluate_averages},
      {.name = "stage 3, muon, whole matrices",
       .options = {.stage = 3, .shards = Cut::kWhole, .optimizer = MuonOptions{}},
       .dtype = low},
      {.name = "stage 3, muon, half of the optimizer on the host", .options = muon, .dtype = low},
      {.name = "stage 3, linked, muon", .options = {.stage = 3, .optimizer = MuonOptions{}}, .linked = true},
      {.name = "stage 1, linked", .options = {.stage = 1}, .linked = true},
      {.name = "stage 3, linked, micro-batches",
       .options = {.stage = 3, .accumulate = 2},
       .dtype = low,
       .linked = true},
      {.name = "stage 1, linked, sums of the link", .options = {.stage = 1, .sums = RankSums::kLinked}, .linked = true},
      {.name = "stage 3, linked, sums of the link, micro-batches",
       .options = {.stage = 3, .accumulate = 2, .sums = RankSums::kLinked},
       .dtype = low,
       .linked = true},
      {.name = "stage 1, two copies", .options = {.stage = 1, .group = 1}},
      {.name = "stage 3, two copies of two ranks, micro-batches",
       .options = {.stage = 3, .group = 2, .accumulate = 2},
       .dtype = low,
       .world = 4},
      {.name = "stage 3, secondary parts, micro-batches", .options = parts, .dtype = low, .world = 4},
      {.name = "stage 3, half of the states on the host",
       .options = with_states({.host = 0.5}),
       .specs = large_specs()},
      {.name = "stage 2, two backward passes", .options = {.stage = 2}, .before = second_backward},
      {.name = "stage 3, delayed", .options = {.stage = 3, .delayed_update = true, .exact_steps = 1}, .steps = 4},
      {.name = "stage 3, delayed, half of the optimizer on the host", .options = late, .dtype = low, .steps = 4},
      {.name = "stage 2, fp16, a step skipped",
       .options = {.stage = 2, .loss_scale = LossScaleOptions{}},
       .dtype = DType::kFloat16,
       .steps = 3,
       .before = overflow_in_second_step},
      {.name = "stage 2, bf16 in sums of fp32, micro-batches",
       .options = {.stage = 2, .accumulate = 2, .reduce_dtype = DType::kFloat32},
       .dtype = low},
      {.name = "stage 3, units cross in codes", .options = coded, .dtype = low},
      {.name = "stage 3, hashed blocks", .options = {.stage = 3, .shards = Cut::kHash}, .dtype = low, .world = 3},
      {.name = "stage 3, shards by weight",
       .options = {.stage = 3, .shards = Cut::kWeighted, .shard_weights = {1, 2, 4}},
       .world = 3},
      {.name = "stage 1, 8 bits", .options = {.stage = 1, .optimizer = AdamW8bitOptions{}}, .dtype = low},
      {.name = "stage 2, a rule of one's own",
       .options = {.stage = 2, .optimizer = OwnRule{.rule = make_update_rule(AdamWOptions{})}},
       .dtype = low},
      {.name = "stage 3, states read", .options = {.stage = 3}, .dtype = low, .steps = 3, .before = read_states},
      {.name = "stage 3, states read, half of the optimizer on the host",
       .options = half,
       .dtype = low,
       .steps = 3,
       .before = read_states},
      {.name = "stage 3, states on a disk", .options = disk, .on_a_disk = true},
  };
}

struct Outcome {
  ScriptedRun run;
  std::string error;
  std::vector<std::string> races, waits;  // of rank 0
  std::vector<VectorClock> clocks;
  bool same_bits(const Outcome& other) const {  // the norm is not compared: a skipped step has none
    return run.weights == other.run.weights && run.checksums == other.run.checksums;
  }
};

// Rank 0's device drops a wait. Unlinked devices start work only when the host waits for it. Linked devices do not wait
// for that, because the host polls them until the work is done.
Outcome outcome_of(const Program& program, std::optional<std::size_t> dropped, std::optional<std::uint64_t> late = {}) {
  const bool far_behind = !program.linked;
  RecordedDevice first({.on_race = OnRace::kList, .late = late, .dropped_wait = dropped, .far_behind = far_behind});
  std::vector<std::unique_ptr<RecordedDevice>> others;
  for (int rank = 1; rank < program.world; ++rank)
    others.push_back(std::make_unique<RecordedDevice>(RecordedDevice::Options{.far_behind = far_behind}));
  ThreadLink::Mail mail;
  ScriptedSteps steps{.steps = program.steps, .before = program.before};
  steps.device = [&](int rank) -> Device* {
    return rank == 0 ? &first : others[static_cast<std::size_t>(rank) - 1].get();
  };
  if (program.linked)
    steps.host.open_link = [&mail](Communicator& units, Device&) -> std::unique_ptr<DeviceLink> {
      return std::make_unique<ThreadLink>(mail, units.rank(), units.world());
    };
  Outcome outcome;
  try {
    outcome.run = scripted_run(program.world, program.specs, program.options, steps);
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  for (const Race& race : first.races()) outcome.races.push_back(race.text);
  outcome.waits = first.waits();
  outcome.clocks = first.clocks();
  return outcome;
}

bool caught(const Outcome& without, const Outcome& whole) {
  return !without.error.empty() || !without.races.empty() || !without.same_bits(whole);
}

// Returns, for example, "lane update waits for lane up".
std::string kind_of(const std::string& wait) {
  return wait.substr(0, wait.find(" behind"));
}

// Kinds of waits that sometimes order nothing that touches the same bytes, with the reason for the wait.
const std::map<std::string, std::string> kSometimesIdle{
    {"lane down waits for lane up", "all sums are on the device at the first gather, and each gather repeats the wait"},
    {"lane down waits for lane update", "a unit is gathered again without an update in between"},
    {"lane reduce waits for lane up", "sums that continue: the wait for one unit often covers the next unit"},
    {"lane up waits for lane compute", "if parameters are sharded, no operator reads the bytes that the host writes"},
    {"lane up waits for lane update", "tiles of one pass: the first tile's wait covers the other tiles"},
    {"lane update waits for lane up",
     "the host has waited for sums before the update, or another tile's wait covers it"},
    {"lane up waits for lane down", "a block of a sum: the host has seen its copy down before the next block"},
    {"the host waits for lane up", "a staged block: the host also waits for a copy down before it writes there"},
    {"the host waits for lane down", "offloaded gradients: the last wait covers the earlier ones"},
};

// Kinds of waits that no program here needs, with the reason for the wait.
const std::map<std::string, std::string> kNeverNeeded{
    {"the host waits for lane compute", "an engine's end waits for all lanes"},
    {"the host waits for lane gather", "an engine's end waits for all lanes"},
    {"the host waits for lane update", "an engine's end waits for all lanes"},
    {"lane up waits for lane gather", "linked devices: the host has waited for the gather"},
    {"lane up waits for lane reduce", "linked devices: the host has waited for the sum"},
};

struct Dropped {
  const Program* program;
  std::size_t wait;
};

// Some kinds are caught only in rare orders of operations. In another order, another wait may have the number.
bool caught_by_more_seeds(const std::string& kind, const std::vector<Dropped>& cases) {
  for (std::uint64_t seed = 3; seed <= 12; ++seed)
    for (const auto& [program, wait] : cases) {
      const Outcome without = outcome_of(*program, wait, seed);
      if (wait < without.waits.size() && kind_of(without.waits[wait]) == kind &&
          caught(without, outcome_of(*program, {})))
        return true;
    }
  return false;
}

// Dropping a wait causes a race or other bits, unless other waits imply it. An implied wait is one without which the
// order of all operations is the same.
TEST(DeviceWaits, DroppingAnyCausesARace) {
  const TemporaryFolder folder;
  Sweep sweep(/*one_in=*/31);
  std::map<std::string, int> num_caught;
  std::map<std::string, std::vector<Dropped>> cases;
  const std::vector<Program> all = programs(folder.path().string());
  for (const Program& program : all) {
    const Outcome whole = outcome_of(program, {});
    ASSERT_EQ(whole.error, "") << program.name;
    ASSERT_TRUE(whole.races.empty()) << program.name << ": " << whole.races.front();
    for (std::size_t dropped = 0; dropped < whole.waits.size(); ++dropped) {
      if (!sweep.takes_next()) continue;
      Outcome without = outcome_of(program, dropped);
      if (dropped >= without.waits.size()) continue;  // this run had fewer waits
      const std::string& wait = without.waits[dropped];
      bool found = caught(without, whole);
      for (std::uint64_t seed = 1; in_full_tier() && !found && seed <= 2; ++seed)
        found = caught(outcome_of(program, dropped, seed), whole);
      num_caught[kind_of(wait)] += found ? 1 : 0;
      cases[kind_of(wait)].push_back({&program, dropped});
      const bool implied = program.on_a_disk || without.clocks == whole.clocks;
      EXPECT_TRUE(found || implied || kSometimesIdle.contains(kind_of(wait))) << program.name << ": " << wait;
    }
  }
  if (!in_full_tier()) return;
  for (const auto& [kind, count] : num_caught) {
    if (kNeverNeeded.contains(kind)) {
      EXPECT_EQ(count, 0) << kind << " was caught";
    } else {
      EXPECT_TRUE(count > 0 || caught_by_more_seeds(kind, cases[kind])) << kind << " was never caught";
    }
  }
}

}  // namespace
}  // namespace zero
