// MachineLeader: the side of machine 0's launcher in machine_messages.h.
//
//   MachineLeader leader(machine_meeting(options, run_id), options.nodes);
//   leader.begin(/*generation=*/0, /*left=*/3);
//   while (the attempt goes on) {
//     poll(leader.watched());
//     for (const MachineMessage& asked : leader.hear()) leader.say(asked.machine, {.kind = Kind::kAgain, ...});
//   }
//   leader.end({.kind = Kind::kOver, .status = MachineMessage::kAllAgain}, 10s);
//
// Invariants: who is slow, silent or a stranger holds up nobody; a stranger is not heard. Each machine has one launcher at a
// time. Local; not thread-safe. The constructor throws ConfigError where another listens at the port.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <poll.h>

#include "zero/base/file.h"
#include "zero/launch/machine_messages.h"
#include "zero/rendezvous/store_session.h"

namespace zero {

class MachineLeader {
 public:
  MachineLeader(MachineMeeting meeting, int machines);

  // Launchers that are here, and those that come while the attempt goes on, are told so.
  void begin(int generation, int left);
  // To be polled; `due()`: but not for longer than until then.
  std::vector<pollfd> watched() const;
  std::optional<std::chrono::steady_clock::time_point> due() const;
  // What launchers of this attempt have said by now: kLost, kAlive, kFailed, kEnded. Of one that is gone before it has said
  // kEnded: kEnded with a status, and a line that names it. Waits for nobody.
  std::vector<MachineMessage> hear();
  // Of launchers that came or left since the last call, and of strangers: whole lines.
  std::string news();
  void say(int machine, MachineMessage message);
  // Whether its ranks have begun, and have not all ended.
  bool takes_part(int machine) const;
  // It did not answer: it is gone.
  void give_up(int machine, std::chrono::milliseconds waited);
  // Tells the outcome of the attempt. If another attempt follows: waits until the ranks of all are gone. A launcher that does
  // not say so in time is dropped.
  void end(MachineMessage over, std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    FileDescriptor socket;
    std::string address;
    Clock::time_point until;  // it has time to say who it is
    meeting::StoreSession session;
    meeting::MessageReader reader;
    int machine = -1;         // not yet known
    bool takes_part = false;  // its ranks have begun, and have not all ended
    bool gone = false;
    std::string how = "is gone";
  };

  void accept_clients();
  void serve(Client& client, std::vector<MachineMessage>& heard);
  bool take(Client& client, const meeting::Message& message, std::vector<MachineMessage>& heard);
  bool greet(Client& client, const meeting::Message& message);
  bool join(Client& client, const MachineMessage& message);
  void begin_on(Client& client);
  bool tell(Client& client, MachineMessage message);
  void drop_gone();

  const MachineMeeting meeting_;
  const int machines_;
  FileDescriptor listener_;
  std::vector<Client> clients_;  // in the order of their coming
  bool goes_on_ = false;
  int generation_ = 0, left_ = 0;
  std::set<int> began_;  // machines that took part in the attempt
  std::vector<MachineMessage> dropped_;
  std::string news_;
  int num_refused_ = 0;
};

}  // namespace zero
