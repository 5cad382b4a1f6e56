// TwoHosts: two network namespaces joined by a cable, as if they were two machines: each has its own loopback, address and
// abstract sockets. They go with it.
//
//   const TwoHosts hosts;
//   if (!hosts.are_there()) GTEST_SKIP() << hosts.why_not();
//   run("ip netns exec " + hosts.name(1) + " zero launch --master-addr " + TwoHosts::kFirstAddress + " ...");
#pragma once

#include <array>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "tests/command_end.h"

namespace zero {

class TwoHosts {
 public:
  static constexpr const char* kFirstAddress = "10.77.0.1";

  TwoHosts() {
    const std::string id = std::to_string(getpid()), cable = "za" + id, end = "zb" + id;
    names_ = {"zero-a-" + id, "zero-b-" + id};
    made_ = end_of_command(fmt::format(
        "(set -e; ip netns add {0}; ip netns add {1}; ip link add {2} type veth peer name {3}; ip link set {2} netns "
        "{0}; "
        "ip link set {3} netns {1}; ip -n {0} addr add {4}/24 dev {2}; ip -n {1} addr add 10.77.0.2/24 dev {3}; "
        "ip -n {0} link set {2} up; ip -n {1} link set {3} up; ip -n {0} link set lo up; ip -n {1} link set lo up) "
        "2>&1",
        names_[0], names_[1], cable, end, kFirstAddress));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts() {
    for (const std::string& name : names_) end_of_command("ip netns del " + name + " 2>&1");
  }

  bool are_there() const { return made_.status == 0; }
  std::string why_not() const { return "network namespaces are not to be had here: " + made_.text; }
  const std::string& name(int host) const { return names_[static_cast<std::size_t>(host)]; }

 private:
  std::array<std::string, 2> names_;
  CommandEnd made_;
};

}  // namespace zero
