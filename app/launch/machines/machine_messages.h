// MachineMessage: a message between the launchers of several machines, for runs whose ranks may be lost.
//
//   leader.say(machine, {.kind = MachineMessage::Kind::kAgain, .rank = 3, .ms = 2000});
//
// The launcher of machine 0 leads (MachineLeader): it decides which ranks start again, and counts all restarts. The
// other launchers ask it (MachineMember). If all ranks of a machine may fail, its launcher cannot tell whether a rank
// failed by itself, or because a rank that may not fail died. The launcher of machine 0 can: its machine has the first
// ranks that may not fail, and it asks the launchers of the other such ranks.
//
// The launchers meet at the port after the master's, and prove to each other that they have the job's token
// (ZERO_TOKEN). Local. machine_meeting() throws ConfigError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zero/comm/rendezvous/store_messages.h"

#include "app/launch/ranks/launch_options.h"

namespace zero {

// The protocol. An attempt is a start of all ranks; its number is the ranks' generation.
//
//   another launcher              launcher of machine 0
//   kJoin      ->                                       the machine's number, and the options that both must have alike
//                              <- kRefused              the options differ, or the machine has a launcher already
//                              <- kWait                 the machine has already begun this attempt, and joins the next
//                              <- kBegin                the generation, and the restarts left; the ranks start
//   kLost      ->                                       a rank that may fail has failed
//                              <- kCheck                to each launcher with ranks that may not fail: do they live?
//   kAlive     ->                                       they live, or ended with 0; after a failure kFailed was sent
//                              <- kAgain                start the rank again by itself, after a pause; or
//                              <- kNoMore               no restarts are left: the others continue without the rank
//   kFailed    ->                                       a failure that ends the attempt: a rank that may not fail has
//                                                       failed, any rank refused its configuration, or the system
//                                                       had no process for a rank
//                              <- kOver                 the attempt is over. With a status the launch ends, else all
//                                                       ranks start again. Open questions are not answered
//   kEnded     ->                                       all ranks have ended. The next attempt begins after all kEnded
//
// The answers to kLost and kCheck are delayed by LaunchOptions::witness. If a rank that may fail saw the death of one
// that may not, the launcher usually knows of this death by then. If it does not, the replacement begins and ends with
// the attempt, and a restart is wasted.
//
// A launcher counts as lost if it hangs up, is silent for half a minute, or does not answer in time. It must answer
// kCheck within half of LaunchOptions::answer, and kLost within all of it. If another launcher is lost, its ranks are
// lost. If one of these may not fail, the attempt has failed; else the other ranks continue. The launcher may join
// again in the next attempt. If machine 0's launcher is lost, the attempt has failed. The other launchers end their
// ranks and join again, as often as restarts are allowed, each time for up to LaunchOptions::patience.
struct MachineMessage {
  enum class Kind { kJoin, kRefused, kWait, kBegin, kLost, kCheck, kAlive, kAgain, kNoMore, kFailed, kOver, kEnded };
  static constexpr int kAllAgain = -1;  // status: all ranks start again

  Kind kind = Kind::kJoin;
  int generation = 0;
  int machine = 0;         // kJoin: the sender's; else set by the receiver
  int rank = -1;           // kLost, kAgain, kNoMore, kFailed
  std::int64_t ms = 0;     // kLost: how long the process lived; kAgain: the pause
  int number = 0;          // of the replacement process (kAgain), of the question (kCheck, kAlive); signal (kFailed)
  int used = 0, left = 0;  // kBegin, kAgain, kOver: restarts
  int status = kAllAgain;  // kFailed, kOver; kEnded: 0 if all ranks that may not fail ended with 0
  std::string text{};      // end of the rank (kLost), options (kJoin), else lines for the user
};

meeting::Message to_message(const MachineMessage& message);
// Returns nullopt if the message is not from a launcher of this version.
std::optional<MachineMessage> to_machine_message(const meeting::Message& message);

// Describes kAgain, with the pause and the numbers of restarts: "... in 2 s (2 of 3, 1 left)".
std::string starting_alone(const MachineMessage& again);

// The meeting point of a run's launchers on several machines, and the values that they prove and compare.
struct MachineMeeting {
  std::string address;
  int port = 0;
  std::string name;     // name of the run; not secret
  std::string secret;   // never to be printed
  std::string options;  // options that all launchers must have alike
};
// Throws ConfigError if the job's token is missing, or if the master's port is the last port.
MachineMeeting machine_meeting(const LaunchOptions& options, const std::string& run_id);

// Enables keep-alive on the socket, because a machine that dies sends nothing.
void watch_connection(int socket);

}  // namespace zero
