// MachineLeader: machine 0's side of the protocol of machine_messages.h.
//
//   MachineLeader leader(machine_meeting(options, run_id), options.nodes);
//   leader.begin(/*generation=*/0, /*left=*/3);
//   while (attempt_runs()) {
//     poll(leader.watched());
//     for (const MachineMessage& asked : leader.hear()) leader.say(asked.machine, {.kind = Kind::kAgain, ...});
//   }
//   leader.end({.kind = Kind::kOver, .status = MachineMessage::kAllAgain}, 10s);
//
// Invariants: a slow, silent or unknown client delays nobody; messages of unknown clients are ignored. Each machine has
// at most one launcher at a time. Local; not thread-safe. The constructor throws ConfigError if another program listens
// at the port.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <poll.h>

#include "zero/base/files/file.h"
#include "zero/comm/rendezvous/store_session.h"

#include "app/launch/machines/machine_messages.h"

namespace zero {

class MachineLeader {
 public:
  MachineLeader(MachineMeeting meeting, int machines);

  // Begins an attempt: sends kBegin to the launchers that are connected now, and to those that join during the attempt.
  // `left`: restarts left.
  void begin(int generation, int left);
  // Returns the descriptors to poll, at most until due().
  std::vector<pollfd> watched() const;
  std::optional<std::chrono::steady_clock::time_point> due() const;
  // Returns the messages that launchers of this attempt have sent: kLost, kAlive, kFailed, kEnded. If a launcher is
  // lost before it sent kEnded, returns kEnded with a status and a line that names the launcher. Does not wait.
  std::vector<MachineMessage> hear();
  // Returns whole lines about launchers that were lost since the last call, and about refused clients.
  std::string news();
  void say(int machine, MachineMessage message);
  // Returns whether the machine's ranks have begun, and have not all ended.
  bool takes_part(int machine) const;
  // Drops a launcher that did not answer within `waited`.
  void give_up(int machine, std::chrono::milliseconds waited);
  // Sends the outcome of the attempt. If another attempt follows, waits until the ranks of all machines have ended.
  // Drops a launcher that does not report this within `limit`.
  void end(MachineMessage over, std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    FileDescriptor socket;
    std::string address;
    Clock::time_point until;  // time limit for its introduction
    meeting::StoreSession session;
    meeting::MessageReader reader;
    int machine = -1;         // -1: not yet known
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
  bool send_to(Client& client, MachineMessage message);
  void drop_gone();

  const MachineMeeting meeting_;
  const int machines_;
  FileDescriptor listener_;
  std::vector<Client> clients_;  // in the order of their connection
  bool goes_on_ = false;
  int generation_ = 0, left_ = 0;
  std::set<int> began_;  // machines that took part in the attempt
  std::vector<MachineMessage> dropped_;
  std::string news_;
  int num_refused_ = 0;
};

}  // namespace zero
