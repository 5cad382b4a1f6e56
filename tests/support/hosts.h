// Hosts: network namespaces of this machine that act as machines, joined by a switch. Each has its own loopback,
// address, abstract sockets and name. They share this machine's files and its /dev/shm.
//
//   const Hosts hosts(4);
//   if (!hosts.are_there()) GTEST_SKIP() << hosts.why_not();
//   run(hosts.on(1) + " zero launch --nnodes 4 --node-rank 1 --master-addr " + Hosts::address(0) + " ...");
//
// Links and switch are inside the namespaces, so this machine's own network does not change. The destructor removes
// everything. If this program is killed, a process that waits for its end does that.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "tests/support/command_end.h"
#include "tests/support/temporary_folder.h"

namespace zero {

class Hosts {
 public:
  // 1 to 200 hosts. Needs root.
  explicit Hosts(int num_hosts) : num_hosts_(num_hosts), made_(end_of_command("(" + making() + ") 2>&1")) {
    folder_.write("on", fmt::format("#!/bin/sh\n"
                                    "host=$1; shift\n"
                                    "exec ip netns exec {0}-$host unshare --uts sh -c "
                                    "'echo {0}-$0 >/proc/sys/kernel/hostname; exec \"$@\"' $host \"$@\"\n",
                                    name_));
    // Called like ssh: "agent ADDRESS command, for a shell". The command sees no variable of this process.
    folder_.write("agent", fmt::format("#!/bin/sh\n"
                                       "host=$((${{1##*.}} - 1)); shift\n"
                                       "exec {} $host env -i PATH=\"$PATH\" HOME=\"$HOME\" sh -c \"$*\"\n",
                                       path_of("on")));
    end_of_command(fmt::format("chmod +x {} {}", path_of("on"), agent()));
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  ~Hosts() {
    end_of_command(removal());
    if (guard_ != nullptr) pclose(guard_);
  }

  int count() const { return num_hosts_; }
  bool are_there() const { return made_.status == 0; }
  std::string why_not() const { return "network namespaces are not to be had here: " + made_.text; }

  // The address of host 0, 1, ...
  static std::string address(int host) { return fmt::format("10.77.0.{}", host + 1); }
  // Two words that begin a shell command on that host. The started process is the command's own.
  std::string on(int host) const { return fmt::format("{} {}", path_of("on"), host); }
  std::vector<std::string> words_on(int host) const { return {path_of("on"), std::to_string(host)}; }
  // Running processes of the host.
  std::vector<pid_t> processes(int host) const {
    std::istringstream text(end_of_command("ip netns pids " + space_of(host)).text);
    std::vector<pid_t> pids;
    for (pid_t pid = 0; text >> pid;) pids.push_back(pid);
    return pids;
  }
  // Flags for mpirun on host 0 with this number of ranks on each host. A script replaces ssh.
  std::string mpirun_flags(int ranks_of_each) const {
    std::string addresses;
    for (int host = 0; host < num_hosts_; ++host)
      addresses += fmt::format("{}{}:{}", host == 0 ? "" : ",", address(host), ranks_of_each);
    return fmt::format("--mca plm_rsh_agent {} -host {} -n {}", agent(), addresses, num_hosts_ * ranks_of_each);
  }

  // Limits the host from now on to `mbits` megabits a second in each direction. Status 0: tc and this kernel support
  // it.
  CommandEnd slow_down(int mbits) const {
    std::string command = "set -e";
    for (int host = 0; host < num_hosts_; ++host) {
      for (const auto& [space, end] : {std::pair{space_of(host), std::string("cable")}, {name_, port_of(host)}})
        command +=
            fmt::format("; ip netns exec {} tc qdisc replace dev {} root tbf rate {}mbit burst 64kb latency 300ms",
                        space, end, mbits);
    }
    return end_of_command("(" + command + ") 2>&1");
  }
  // The number of the host's packets that have waited for that limit so far.
  std::int64_t held_back(int host) const {
    const std::string text = end_of_command(on(host) + " tc -s qdisc show dev cable").text;
    const std::size_t at = text.find("overlimits ");
    return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + 11);
  }
  // Bytes that the host has sent to other hosts so far, with all headers.
  std::int64_t sent_bytes(int host) const {
    return std::atoll(end_of_command(on(host) + " cat /sys/class/net/cable/statistics/tx_bytes").text.c_str());
  }

 private:
  std::string space_of(int host) const { return fmt::format("{}-{}", name_, host); }
  static std::string port_of(int host) { return fmt::format("port{}", host); }
  std::string agent() const { return path_of("agent"); }
  std::string path_of(const std::string& script) const { return (folder_.path() / script).string(); }

  std::string making() const {
    std::string command = fmt::format(
        "set -e; ip netns add {0}; ip -n {0} link add switch type bridge; ip -n {0} link set switch up", name_);
    for (int host = 0; host < num_hosts_; ++host) {
      command += fmt::format(
          "; ip netns add {0}; ip -n {0} link add cable type veth peer name {2} netns {1}; ip -n {1} link set {2} "
          "master "
          "switch; ip -n {1} link set {2} up; ip -n {0} addr add {3}/24 dev cable; ip -n {0} link set cable up; "
          "ip -n {0} link set lo up",
          space_of(host), name_, port_of(host), address(host));
    }
    return command;
  }
  std::string removal() const {
    std::string command;
    for (int host = 0; host < num_hosts_; ++host)
      command += fmt::format("ip netns del {} 2>/dev/null; ", space_of(host));
    return command + fmt::format("ip netns del {} 2>/dev/null", name_);
  }
  // A process that nobody waits for. It notices the end of this process through a pipe, and then removes all that is
  // left.
  FILE* watch_own_end() const {
    return popen(fmt::format("exec 3<&0; (trap '' HUP INT TERM; cat <&3; {}; rm -rf {}) >/dev/null 2>&1 3<&3 &",
                             removal(), folder_.path().string())
                     .c_str(),
                 "we");
  }

  static inline int num_made_ = 0;  // in this program, so no name is used twice while an earlier guard may still run

  const int num_hosts_;
  const std::string name_ = fmt::format("zero-{}-{}", getpid(), num_made_++);
  const TemporaryFolder folder_;
  FILE* const guard_ = watch_own_end();
  const CommandEnd made_;
};

}  // namespace zero
