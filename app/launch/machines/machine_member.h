// MachineMember: the side of the other machines' launchers in the protocol of machine_messages.h.
//
//   MachineMember member(machine_meeting(options, run_id), options);
//   MachineMember::Turn turn = member.await_begin(inbox);       // connects first
//   if (turn.message && turn.message->kind == Kind::kBegin) {
//     ...start the ranks; poll(member.fd()); for (const MachineMessage& said : member.hear()) ...
//     member.say({.kind = Kind::kLost, .rank = 3, ...});
//     if (!member.lost().empty()) ...end the ranks: there is no leader
//     member.say({.kind = Kind::kEnded});
//   }
//
// Local; not thread-safe. await_begin() throws ConfigError.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/files/file.h"

#include "app/launch/machines/machine_messages.h"
#include "app/launch/ranks/signal_inbox.h"

namespace zero {

class MachineMember {
 public:
  MachineMember(MachineMeeting meeting, const LaunchOptions& options);

  // The end of a wait, by exactly one of three members. The message is kBegin, or kOver with a status.
  struct Turn {
    std::optional<MachineMessage> message{};
    int signal = 0;      // the signal that told this launcher to stop
    std::string lost{};  // why there is no leader: a sentence that names machine 0's launcher
  };
  // Connects if necessary, and waits for an attempt. Waits for the connection up to the patience of the options, and
  // for the attempt as long as machine 0's launcher lives. Prints lines for the user to standard error. Throws
  // ConfigError if machine 0's launcher refuses this launcher.
  Turn await_begin(SignalInbox& inbox);

  int fd() const { return socket_.get(); }  // -1: not connected
  // Returns the messages of this attempt that have arrived. Does not wait.
  std::vector<MachineMessage> hear();
  void say(MachineMessage message);
  // Returns why the connection was lost, as a sentence that names machine 0's launcher; "" if it was not.
  const std::string& lost() const { return lost_; }
  // Closes the connection, because machine 0's launcher did not answer within `waited`.
  void give_up(std::chrono::milliseconds waited);

 private:
  // Returns false, and the reason in `why`, if the connection cannot be made yet.
  bool connect(std::string& why);
  void hang_up(const std::string& why);
  std::optional<MachineMessage> read();

  const MachineMeeting meeting_;
  const int machine_;
  const std::chrono::milliseconds patience_;
  FileDescriptor socket_;
  meeting::MessageReader reader_;
  int generation_ = -1;
  std::string lost_;
};

}  // namespace zero
