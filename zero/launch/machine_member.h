// MachineMember: the side of every launcher but machine 0's in machine_messages.h.
//
//   MachineMember member(machine_meeting(options, run_id), options);
//   MachineMember::Turn turn = member.await_begin(inbox);       // connects first
//   if (turn.message && turn.message->kind == Kind::kBegin) {
//     ...start the ranks; poll(member.fd()); for (const MachineMessage& said : member.hear()) ...
//     member.say({.kind = Kind::kLost, .rank = 3, ...});
//     if (!member.lost().empty()) ...end the ranks: nobody leads any more
//     member.say({.kind = Kind::kEnded});
//   }
//
// Local; not thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/file.h"
#include "zero/launch/machine_messages.h"
#include "zero/launch/signal_inbox.h"

namespace zero {

class MachineMember {
 public:
  MachineMember(MachineMeeting meeting, const LaunchOptions& options);

  // How a wait has ended: one of the three. A message is kBegin, or kOver with a status.
  struct Turn {
    std::optional<MachineMessage> message{};
    int signal = 0;      // this launcher was told to stop
    std::string lost{};  // nobody leads: a sentence that names machine 0's launcher
  };
  // Connects if need be, and waits for an attempt; for the connection up to the patience of the options, for the attempt as long
  // as machine 0's launcher lives. Lines that are to be shown meanwhile go to standard error. Throws ConfigError where it
  // refuses this one.
  Turn await_begin(SignalInbox& inbox);

  int fd() const { return socket_.get(); }  // -1: not connected
  // Of this attempt. Waits for nobody.
  std::vector<MachineMessage> hear();
  void say(MachineMessage message);
  // Why there is no connection: a sentence that names machine 0's launcher. Empty: there is one.
  const std::string& lost() const { return lost_; }
  // It did not answer.
  void give_up(std::chrono::milliseconds waited);

 private:
  // False: not yet, `why`.
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
