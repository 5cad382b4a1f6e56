// Arrivals: how a rank waits for whichever of several messages comes first, and how a run goes on without a rank.
//
//   Work first = comm.receive(a, 1, {}), second = comm.receive(b, 2, {});
//   Arrivals& arrivals = *comm.arrivals();
//   arrivals.await([&] { return first.try_complete() || second.try_complete() || arrivals.lost(2); });
//
// All transports have it, for all ranks of the run; of a group over messages Communicator::arrivals() is null. Local, all of
// it. Over messages (mpi, gloo) a rank is known to be lost by the end of its connection: where a machine or a network fails
// without a word, it is late. There every rank of a run waits so, or none does: one that leaves and has never waited so is
// taken for one whose process has ended.
//
// A rank that must wait for none of its readers asks before it sends more: unread() says how far one has come.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "zero/comm/communicator.h"
#include "zero/comm/replacements.h"

namespace zero {

class Arrivals {
 public:
  virtual ~Arrivals() = default;

  // Sleeps until ready(), which is asked soon after a message has come, and many times a second. False after `limit`, of
  // which 0 is none: nobody is late here. Throws the CommError of a rank whose end ends the run, and of a run that failed.
  virtual bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit = {}) = 0;

  // From here on the run goes on should this rank's process end, on each rank that has heard of it. Nobody waits for it but
  // in await(), where lost() says that it is gone.
  virtual void may_be_lost() = 0;
  // The rank has left the run, or its process has ended; as of the newest await().
  virtual bool lost(int rank) const = 0;
  // Messages from here to `rank` that it has not read, the newest ones: their bytes may not change yet, those of the others
  // may. Over messages a message is read when the transport has let go of its bytes, which it may say a moment late. 0 where
  // the rank is lost. Waits for nobody, and may be asked within await().
  virtual int unread(int rank) = 0;
  // What this machine knows of a rank that is late: "process 4711 is stopped (SIGSTOP)"; empty where it knows nothing.
  virtual std::string known_state(int /*rank*/) const { return ""; }
  // How lost ranks come back; null where they do not.
  virtual Replacements* replacements() { return nullptr; }
};

// Whether this process came for one that the run had lost. Local, with any transport.
bool is_replacement(Communicator& comm);

// Waits for a message of a rank as long as that rank is there, however late it is. `comm` has arrivals(). Throws CommError
// where it leaves.
void await_message(Communicator& comm, Work& work, int from);

// The most messages to each of `receivers` ranks for which a rank always has room, however many of them read none.
int most_unread(int receivers);

// Waits until at most `most` messages to that rank are unread, however late it is, or until it is lost. `comm` has
// arrivals().
void await_reader(Communicator& comm, int to, int most = 0);

// Sends bytes of bookkeeping. When it returns, `message` may change or go: such a transport has copied a small message, and
// a large one (more than kInlineBytes of board.h) has been read. `comm` has arrivals().
void send_message(Communicator& comm, std::span<const std::byte> message, int to);

}  // namespace zero
