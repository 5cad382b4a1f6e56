// Hosts: network namespaces of this machine, joined by a switch, that stand for machines. Each has its own loopback, address,
// abstract sockets and name. Files, and the memory of /dev/shm, are those of this machine.
//
//   const Hosts hosts(4);
//   if (!hosts.are_there()) GTEST_SKIP() << hosts.why_not();
//   run(hosts.on(1) + " zero launch --nnodes 4 --node-rank 1 --master-addr " + Hosts::address(0) + " ...");
//
// Cables and switch are made inside the namespaces, so this machine's own network is not touched. All is gone when the
// object is, and also when this program is killed: a process waits for its end.
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
  // 1 to 200 hosts; needs root.
  explicit Hosts(int num_hosts) : num_hosts_(num_hosts), made_(end_of_command("(" + making() + ") 2>&1")) {
    folder_.write("on", fmt::format("#!/bin/sh\n"
                                    "host=$1; shift\n"
                                    "exec ip netns exec {0}-$host unshare --uts sh -c "
                                    "'echo {0}-$0 >/proc/sys/kernel/hostname; exec \"$@\"' $host \"$@\"\n",
                                    name_));
    // As ssh: "agent ADDRESS command, for a shell", and no variable of here is there.
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

  // Of the hosts 0, 1, ...
  static std::string address(int host) { return fmt::format("10.77.0.{}", host + 1); }
  // Two words that begin a command of that host, whose process then is the command's.
  std::string on(int host) const { return fmt::format("{} {}", path_of("on"), host); }
  std::vector<std::string> words_on(int host) const { return {path_of("on"), std::to_string(host)}; }
  // Processes of the host that have not ended.
  std::vector<pid_t> processes(int host) const {
    std::istringstream text(end_of_command("ip netns pids " + space_of(host)).text);
    std::vector<pid_t> pids;
    for (pid_t pid = 0; text >> pid;) pids.push_back(pid);
    return pids;
  }
  // Of mpirun on host 0: so many ranks on each host. A script stands for ssh.
  std::string mpirun_flags(int ranks_of_each) const {
    std::string addresses;
    for (int host = 0; host < num_hosts_; ++host)
      addresses += fmt::format("{}{}:{}", host == 0 ? "" : ",", address(host), ranks_of_each);
    return fmt::format("--mca plm_rsh_agent {} -host {} -n {}", agent(), addresses, num_hosts_ * ranks_of_each);
  }

  // From now on a host sends and receives so many megabits a second at most. Status 0: tc and this kernel can.
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
  // How often a packet of the host had to wait for that, until now.
  std::int64_t held_back(int host) const {
    const std::string text = end_of_command(on(host) + " tc -s qdisc show dev cable").text;
    const std::size_t at = text.find("overlimits ");
    return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + 11);
  }
  // Bytes that the host has sent to others until now, all headers included.
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
  // A process that nobody waits for: it reads the end of this one from a pipe, and then removes what is left.
  FILE* watch_own_end() const {
    return popen(fmt::format("exec 3<&0; (trap '' HUP INT TERM; cat <&3; {}; rm -rf {}) >/dev/null 2>&1 3<&3 &",
                             removal(), folder_.path().string())
                     .c_str(),
                 "we");
  }

  static inline int num_made_ = 0;  // by this program: no name comes twice, since a guard may still be at work

  const int num_hosts_;
  const std::string name_ = fmt::format("zero-{}-{}", getpid(), num_made_++);
  const TemporaryFolder folder_;
  FILE* const guard_ = watch_own_end();
  const CommandEnd made_;
};

}  // namespace zero
