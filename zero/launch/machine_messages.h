// MachineMessage: what the launchers of several machines say to each other, where ranks of other machines may be lost.
//
// A launcher that has workers alone cannot tell whether one of them failed by itself, or because a server died. The
// launcher of machine 0 can: it has the first ranks that may not fail, and asks the launchers that have more of them. So it
// leads, the others ask it, and all restarts are counted there. An attempt is a start of all ranks; its number is their
// generation.
//
//   another launcher              launcher of machine 0
//   kJoin      ->                                       its number, and the options that both must have alike
//                              <- kRefused              another number of machines, ranks ...; a second one of a number
//                              <- kWait                 this machine has begun the attempt already: it takes part in the next
//                              <- kBegin                its generation; restarts that are left. Now it starts its ranks
//   kLost      ->                                       a rank that may fail has
//                              <- kCheck                asked of each launcher that has ranks that may not: do they live?
//   kAlive     ->                                       they do, or have done their part. If one is dead, kFailed was said
//                              <- kAgain                start it again alone, after a pause; or
//                              <- kNoMore               no restarts are left: the others go on without it
//   kFailed    ->                                       a failure that ends the attempt: of a rank that may not fail, or of
//                                                       whichever rank a refused configuration, or no process was to be had
//                              <- kOver                 the attempt is over: with a status the launch ends, without one all
//                                                       ranks start again. Whatever was asked is not answered any more
//   kEnded     ->                                       all ranks have ended. When all say so the next attempt begins
//
// An answer to kLost, and one to kCheck, waits a moment (LaunchOptions::witness): a server whose death the worker saw first
// is known to be dead by then. If it is not, the attempt ends after the replacement has begun, which ends with the others: a
// restart is lost.
//
// One that hangs up, or falls silent for half a minute, or is asked and does not answer for half of LaunchOptions::answer, is
// gone. If another launcher is gone, so are its ranks. Where one of them may not fail, the attempt has failed; else the others
// go on without them. In the next attempt the launcher may be there again. If machine 0's is gone, the attempt has failed: the
// others end their ranks and join again, as often as they may restart, each time for up to LaunchOptions::patience.
//
// They meet at the port behind the master's, and prove to each other that they have the job's token (ZERO_TOKEN).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zero/launch/launch_options.h"
#include "zero/rendezvous/store_messages.h"

namespace zero {

struct MachineMessage {
  enum class Kind { kJoin, kRefused, kWait, kBegin, kLost, kCheck, kAlive, kAgain, kNoMore, kFailed, kOver, kEnded };
  static constexpr int kAllAgain = -1;  // a status

  Kind kind = Kind::kJoin;
  int generation = 0;
  int machine = 0;      // kJoin; else as the reader knows it
  int rank = -1;        // kLost, kAgain, kNoMore, kFailed
  std::int64_t ms = 0;  // kLost: how long the process lived; kAgain: the pause
  int number = 0;  // kAgain: of the process, after the rank's first; kCheck, kAlive: of the question; kFailed: a signal
  int used = 0, left = 0;  // kBegin, kAgain, kOver: restarts
  int status = kAllAgain;  // kFailed, kOver; kEnded: 0 where all that may not fail ended with 0
  std::string
      text{};  // kLost: how it ended; kJoin: options; kRefused, kWait, kFailed, kOver, kEnded: lines for the user
};

meeting::Message to_message(const MachineMessage& message);
// Nothing: no launcher of this version wrote it.
std::optional<MachineMessage> to_machine_message(const meeting::Message& message);

// "starting it again alone in 2 s (2 of 3, 1 left)": of kAgain.
std::string starting_alone(const MachineMessage& again);

// Where launchers of a run on several machines meet, and what they prove to each other.
struct MachineMeeting {
  std::string address;
  int port = 0;
  std::string name;     // which run; no secret
  std::string secret;   // never to be printed
  std::string options;  // that all launchers have alike
};
// Throws ConfigError where the job's token is missing, or there is no port behind the master's.
MachineMeeting machine_meeting(const LaunchOptions& options, const std::string& run_id);

// So that the end of a machine, which says nothing, is seen.
void watch_connection(int socket);

}  // namespace zero
