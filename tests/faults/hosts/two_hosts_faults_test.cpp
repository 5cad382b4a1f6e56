// `zero launch` on two machines. First a rank is killed, then a launcher with its rank, as when a machine is lost and
// returns. The machines are network namespaces.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/hosts/hosts_fault_test.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

// A mode of training whose bits do not depend on time.
struct HostsMode {
  const char* name;
  std::vector<std::string> flags;
};

class TwoHostsFaults : public HostsFaultTest, public testing::WithParamInterface<HostsMode> {
 protected:
  std::vector<std::string> training(const std::string& run, std::vector<std::string> flags) const {
    flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
    return train(run, flags,
                 {{"data.validation", "0"},
                  {"train.steps", "40"},
                  {"train.log_every", "1"},
                  {"checkpoint.every", "5"},
                  {"comm.transport", "gloo"},
                  {"run.threads", "1"}});
  }
  std::vector<std::string> launcher(int host) const {
    return launch_on(host, {"-n", "1", "--max-restarts", "3"}, training("run", {}));
  }
  // Waits for a step of the ranks after that number of restarts.
  static bool goes_on(WatchedCommand& first, int restarts) {
    const std::string line = fmt::format("starting all ranks again ({} of 3)", restarts);
    return first.wait_for(line) && first.wait_for("\nstep ", first.text().find(line));
  }
};

// A rank dies, and then a launcher is started anew.
TEST_P(TwoHostsFaults, RestartsChangeNoBit) {
  const Undisturbed undisturbed = leave_alone(training("undisturbed", {"-n", "2"}), "undisturbed");
  WatchedCommand first(launcher(0)), second(launcher(1));
  ASSERT_TRUE(first.wait_for("\nstep 8/")) << first.text() << second.text();
  strike(second.wait_for_rank(1), SIGKILL);
  ASSERT_TRUE(goes_on(first, 1)) << first.text() << second.text();
  EXPECT_SAYS(first, "rank 1: ") << "the lost rank is named";
  EXPECT_TRUE(second.wait_for("rank 1 of 2 failed with signal 9 (SIGKILL)")) << second.text();

  second.send(SIGKILL);
  EXPECT_EQ(second.finish(), 128 + SIGKILL);
  EXPECT_TRUE(second.gone_before(Clock::now() + kAllGone)) << "its rank outlived the launcher";
  WatchedCommand anew(launcher(1));  // its ranks have generation 0, the others generation 2
  EXPECT_TRUE(goes_on(first, 2)) << first.text() << anew.text();
  EXPECT_EQ(first.finish(), 0) << first.text();
  EXPECT_EQ(anew.finish(), 0) << anew.text();
  EXPECT_EQ(weights_of("run"), undisturbed.weights) << first.text();
  for (WatchedCommand* const command : {&first, &anew}) expect_nothing_left(*command);
}

std::vector<HostsMode> hosts_modes() {
  std::vector<HostsMode> modes{{"sync", {}}};
  if (in_full_tier())
    modes.insert(modes.end(), {{"copies", {"--zero.group", "1"}},
                               {"local", {"--sync.mode", "local", "--sync.local_steps", "4"}},
                               {"stale", {"--sync.mode", "stale", "--sync.staleness", "1"}}});
  return modes;
}

INSTANTIATE_TEST_SUITE_P(Modes, TwoHostsFaults, testing::ValuesIn(hosts_modes()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace zero
