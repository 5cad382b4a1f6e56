// HostsFaultTest: fault tests of runs on several hosts, which are network namespaces of this machine. It starts a
// launcher on each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/faults/struck_run_test.h"
#include "tests/support/environment_variable.h"
#include "tests/support/hosts.h"

namespace zero {

class HostsFaultTest : public StruckRunTest {
 protected:
  void SetUp() override {
    if (!ZERO_CAN_TRAIN || !ZERO_HAS_GLOO) GTEST_SKIP() << "this build has no libtorch, or no plug-in gloo";
    make_hosts(2);
  }
  void make_hosts(int count) {
    hosts_.emplace(count);
    if (!hosts_->are_there()) GTEST_SKIP() << hosts_->why_not();
  }

  // The command line of `zero launch` on a host, as in the guide.
  std::vector<std::string> launch_on(int host, const std::vector<std::string>& flags,
                                     const std::vector<std::string>& program) const {
    std::vector<std::string> words = hosts_->words_on(host);
    words.insert(words.end(), {built::kCommand, "launch", "--nnodes", std::to_string(hosts_->count()), "--node-rank",
                               std::to_string(host), "--master-addr", Hosts::address(0)});
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }

  const EnvironmentVariable token_{"ZERO_TOKEN", "a token of the tests"};
  std::optional<Hosts> hosts_;
};

}  // namespace zero
