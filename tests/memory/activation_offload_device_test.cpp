// Activations of a device that the host cannot read: their bytes, the waits between lanes and host, and their memory.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/memory/activation_offload.h"

#include "tests/support/device/recorded_device.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr std::size_t kActivationBytes = 2 * DiskTier::kPageBytes + 300;  // ends within a page
constexpr std::int64_t kActivationPages = 3 * DiskTier::kPageBytes;
constexpr int kChain = 9;

// Operators that use the same device memory for all activations, one after the other.
class Operators {
 public:
  explicit Operators(RecordedDevice& device, std::size_t bytes = kActivationBytes)
      : device_(device), memory_(device.allocate(bytes)) {}

  std::span<std::byte> make(int value, std::size_t bytes = kActivationBytes) {
    const std::span<std::byte> made = memory_.bytes().first(bytes);
    device_.fill(Lane::kCompute, made, static_cast<std::byte>(value));
    device_.fill(Lane::kCompute, made.last(1), static_cast<std::byte>(value + 1));
    return made;
  }
  // Copies the operator's input for values(), which compares it after the last operator.
  void use(std::span<const std::byte> bytes) {
    seen_.push_back(device_.allocate_pinned(bytes.size()));
    device_.copy(Lane::kCompute, seen_.back().bytes(), bytes);
  }
  void bring_and_use(ActivationOffload& offload, ActivationOffload::Handle handle,
                     std::size_t bytes = kActivationBytes) {
    const std::span<std::byte> into = memory_.bytes().first(bytes);
    device_.fill(Lane::kCompute, into, std::byte{0xee});
    offload.bring(handle, into);
    use(into);
    device_.fill(Lane::kCompute, into, std::byte{0xdd});
  }
  // The value that each use read, or -1 if the bytes have different values.
  std::vector<int> values() {
    device_.join(device_.mark(Lane::kCompute));
    std::vector<int> values;
    for (const Allocation& seen : seen_) {
      const Access access = reads(seen.bytes());
      device_.host_touches({&access, 1}, "a test");
      const std::byte first = seen.bytes().front(), last = seen.bytes().back();
      const auto is_first = [first](std::byte byte) { return byte == first; };
      const bool whole = std::ranges::all_of(seen.bytes().first(seen.size() - 1), is_first);
      const int value = std::to_integer<int>(first);
      values.push_back(whole && std::to_integer<int>(last) == value + 1 ? value : -1);
    }
    return values;
  }

 private:
  RecordedDevice& device_;
  Allocation memory_;
  std::vector<Allocation> seen_;
};

ActivationOffloadOptions options_on(Tier tier, const TemporaryFolder& folder) {
  return {.tier = tier, .disk = {folder.path()}, .checksums = true, .from_device = true};
}

// Two steps of a chain of checkpoints.
std::vector<int> two_steps(RecordedDevice& device, ActivationOffload& offload) {
  Operators operators(device);
  for (int step = 0; step < 2; ++step) {
    std::vector<ActivationOffload::Handle> handles;
    for (int i = 0; i < kChain; ++i) handles.push_back(offload.offload(operators.make(20 * step + i)));
    for (std::size_t i = kChain; i-- > 0;) {
      operators.bring_and_use(offload, handles[i]);
      offload.forget(handles[i]);
    }
  }
  return operators.values();
}

std::vector<int> expected_values() {
  std::vector<int> values;
  for (int step = 0; step < 2; ++step)
    for (int i = kChain; i-- > 0;) values.push_back(20 * step + i);
  return values;
}

struct Offloading {
  TemporaryFolder folder;
  Ledger ledger;
  ActivationOffload offload;
  Offloading(Tier tier, RecordedDevice& device) : offload(options_on(tier, folder), ledger) {
    offload.come_from(device);
  }
};

TEST(ActivationsOfADevice, ComeBackAsOperatorsMadeThem) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    std::vector<RecordedDevice::Options> all{{}, {.far_behind = true}};
    for (std::uint64_t seed = 1; seed <= 6; ++seed) all.push_back({.late = seed, .far_behind = seed % 2 == 0});
    for (const RecordedDevice::Options& options : all) {
      RecordedDevice device(options);
      Offloading f(tier, device);
      EXPECT_EQ(two_steps(device, f.offload), expected_values()) << name_of(tier);
    }
  }
}

int num_host_waits(const RecordedDevice& device) {
  return static_cast<int>(std::ranges::count_if(
      device.waits(), [](const std::string& wait) { return wait.starts_with("the host waits"); }));
}

TEST(ActivationsOfADevice, LanesWaitAndHostDoesNot) {
  RecordedDevice device({.far_behind = true});
  Offloading f(Tier::kHost, device);
  EXPECT_EQ(two_steps(device, f.offload), expected_values());
  EXPECT_EQ(num_host_waits(device), 1) << "the only wait is the test's own";
}

// No order of calls needs these kinds of waits, because blocks are released in order. The text says why each wait
// exists.
const std::map<std::string, std::string> kAlwaysImplied{
    {"lane up waits for lane down", "who lost a block was down before kCompute, or kUp, used that block again"},
    {"lane down waits for lane up", "what went up was used in kCompute, which kDown comes after"},
};

struct Outcome {
  std::vector<int> values;
  std::string error;
  std::vector<Race> races;
  std::vector<std::string> waits;
  std::vector<VectorClock> clocks;
};
Outcome outcome_of(Tier tier, std::optional<std::size_t> dropped) {
  RecordedDevice device({.on_race = OnRace::kList, .dropped_wait = dropped, .far_behind = true});
  Outcome outcome;
  {
    Offloading f(tier, device);
    try {
      outcome.values = two_steps(device, f.offload);
    } catch (const Error& error) {
      outcome.error = error.what();
    }
    outcome.waits = device.waits();
    outcome.clocks = device.clocks();
  }
  outcome.races = device.races();
  return outcome;
}

TEST(ActivationsOfADevice, EachWaitIsNeededOrImplied) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    const Outcome whole = outcome_of(tier, {});
    ASSERT_EQ(whole.error, "");
    ASSERT_TRUE(whole.races.empty()) << whole.races.front().text;
    std::map<std::string, int> num_caught;
    Sweep sweep(/*one_in=*/tier == Tier::kDisk ? 7 : 1);
    for (std::size_t dropped = 0; dropped < whole.waits.size(); ++dropped) {
      if (!sweep.takes_next()) continue;
      const Outcome without = outcome_of(tier, dropped);
      const std::string& wait = whole.waits[dropped];
      const std::string kind = wait.substr(0, wait.find(" behind"));
      const bool caught = !without.races.empty() || !without.error.empty() || without.values != whole.values;
      num_caught[kind] += caught ? 1 : 0;
      EXPECT_TRUE(caught || without.clocks == whole.clocks) << name_of(tier) << wait;
    }
    for (const auto& [kind, count] : num_caught)
      EXPECT_TRUE(count > 0 || kAlwaysImplied.contains(kind)) << name_of(tier) << ": " << kind;
  }
}

TEST(ActivationsOfADevice, TakeDeclaredMemory) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    RecordedDevice device;
    Offloading f(tier, device);
    const ActivationOffloadNeed need = activation_offload_need(options_on(tier, f.folder), kChain, kActivationBytes);
    two_steps(device, f.offload);
    EXPECT_EQ(f.ledger.peak_total(Tier::kDevice), need.device) << name_of(tier);
    EXPECT_EQ(f.ledger.peak_total(Tier::kHost), need.host) << name_of(tier);
    EXPECT_EQ(need.device, tier == Tier::kDisk ? kActivationPages : 4 * kActivationPages);
    EXPECT_EQ(f.offload.report().bytes, 0);
  }
}

// The newest four activations are also still on the device. All of them are written to the lower tier.
TEST(ActivationsOfADevice, NewestFourStayAndAllMove) {
  RecordedDevice device;
  Offloading f(Tier::kHost, device);
  two_steps(device, f.offload);
  const LinkTraffic link = f.offload.report().link;
  EXPECT_EQ(link.down_bytes, 2 * kChain * static_cast<std::int64_t>(kActivationBytes));
  EXPECT_EQ(link.up_bytes, 2 * (kChain - 4) * static_cast<std::int64_t>(kActivationBytes));
}

TEST(ActivationsOfADevice, KeepTheirLimit) {
  RecordedDevice device;
  Ledger ledger;
  ActivationOffload offload({.tier = Tier::kHost, .most_bytes = 2 * kActivationBytes}, ledger);
  offload.come_from(device);
  Operators operators(device);
  const auto first = offload.offload(operators.make(1)), second = offload.offload(operators.make(2));
  const std::string message = message_of<ConfigError>([&] { offload.offload(operators.make(3)); });
  EXPECT_TRUE(says(message, "zero.host_memory")) << message;
  operators.bring_and_use(offload, second);
  operators.bring_and_use(offload, first);
  EXPECT_EQ(operators.values(), (std::vector<int>{2, 1}));
}

// This also holds for the destruction of the store while transfers run.
TEST(ActivationsOfADevice, SurviveForgettingUnderWay) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    RecordedDevice device({.late = 3, .far_behind = true});
    Offloading f(tier, device);
    Operators operators(device);
    std::vector<ActivationOffload::Handle> handles;
    for (int i = 0; i < 8; ++i) handles.push_back(f.offload.offload(operators.make(i)));
    operators.bring_and_use(f.offload, handles[7]);  // 6 and 5 are on the device, and the transfer of 3 begins
    f.offload.forget(handles[6]);
    operators.bring_and_use(f.offload, handles[2]);
    f.offload.forget(handles[1]);
    for (int i = 0; i < 3; ++i) f.offload.offload(operators.make(50 + i));
    operators.bring_and_use(f.offload, handles[0]);
    EXPECT_EQ(operators.values(), (std::vector<int>{7, 2, 0}));
  }
}

TEST(ActivationsOfADevice, TakeVaryingSizesInAnyOrder) {
  rc::check([](std::uint64_t seed) {
    constexpr std::size_t kMost = 30'000;
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      if (tier == Tier::kDisk && seed % 8 != 0 && !in_full_tier()) continue;
      RecordedDevice device({.late = seed, .far_behind = seed % 2 == 0});
      Offloading f(tier, device);
      Operators operators(device, kMost);
      struct Offloaded {
        ActivationOffload::Handle handle;
        int value;
        std::size_t bytes;
      };
      std::vector<Offloaded> offloaded;
      std::vector<int> expected;
      const auto choices = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, 1'000'000));
      for (const std::size_t choice : choices) {
        const std::size_t which = offloaded.empty() ? 0 : choice / 4 % offloaded.size();
        if (choice % 4 < 2 || offloaded.empty()) {
          const int value = static_cast<int>(choice % 200);
          const std::size_t bytes = 2 + choice % (kMost - 2);
          offloaded.push_back({f.offload.offload(operators.make(value, bytes)), value, bytes});
        } else if (choice % 4 == 2) {
          operators.bring_and_use(f.offload, offloaded[which].handle, offloaded[which].bytes);
          expected.push_back(offloaded[which].value);
        } else {
          f.offload.forget(offloaded[which].handle);
          offloaded.erase(offloaded.begin() + static_cast<std::ptrdiff_t>(which));
        }
      }
      RC_ASSERT(operators.values() == expected);
    }
  });
}

TEST(ActivationsOfADevice, MainMemoryDeviceChangesNothing) {
  Ledger ledger;
  ActivationOffload offload({.tier = Tier::kHost}, ledger);
  offload.come_from(HostDevice::instance());
  std::vector<std::byte> bytes(100, std::byte{7}), into(100);
  const auto handle = offload.offload(bytes);
  offload.bring(handle, into);
  EXPECT_EQ(into, bytes);
  EXPECT_EQ(ledger.held(Tier::kDevice), MemoryCount{});
  EXPECT_EQ(offload.report().link.down_bytes, 0);
}

}  // namespace
}  // namespace zero
