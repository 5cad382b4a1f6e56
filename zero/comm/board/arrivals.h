// Arrivals: waits for whichever of several messages comes first, and lets a run go on without a lost rank.
//
//   Work first = comm.receive(a, 1, {}), second = comm.receive(b, 2, {});
//   Arrivals& arrivals = *comm.arrivals();
//   arrivals.await([&] { return first.try_complete() || second.try_complete() || arrivals.lost(2); });
//
// Every transport has it for the ranks of the whole run. For a group over messages, Communicator::arrivals() is null.
//
// Over messages (mpi, gloo) the end of its connection shows that a rank is lost. If a machine or a network fails
// silently, the rank is only late. Either all ranks of a run call await(), or none does. A rank that never calls
// await() sends no notice when it leaves, and the others would take its process for dead.
//
// Local, all functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "zero/comm/communicator.h"
#include "zero/comm/replacements.h"

namespace zero {

class Arrivals {
 public:
  virtual ~Arrivals() = default;

  // Sleeps until ready() is true. Calls ready() soon after each message, and many times a second. Returns false after
  // `limit` (0: no limit); no rank counts as late. Throws the CommError of a rank whose end ends the run, or of a run
  // that failed.
  virtual bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit = {}) = 0;

  // Declares that the run goes on if this rank's process ends, on each rank that has received the declaration. Other
  // ranks must then wait for this rank only in await(), and check lost() there.
  virtual void may_be_lost() = 0;
  // Returns true if the rank has left the run or its process has ended, as of the newest await().
  virtual bool lost(int rank) const = 0;
  // Counts the messages from this rank to `rank` that `rank` has not read. They are the newest ones: their bytes may
  // not change yet, but bytes of earlier messages may. Over messages, a message is read when the transport has released
  // its bytes, which it may report a moment late. Returns 0 if the rank is lost. Never waits, and may be called within
  // await(). A rank that must not wait for its readers calls it before it sends more.
  virtual int unread(int rank) = 0;
  // Describes a late rank as far as this machine knows: "process 4711 is stopped (SIGSTOP)"; empty if it knows nothing.
  virtual std::string known_state(int /*rank*/) const { return ""; }
  // Returns true if the rank's process is stopped (SIGSTOP), as far as this machine knows.
  virtual bool is_stopped(int /*rank*/) const { return false; }
  // Ends the run because of a rank, and throws the CommError that then every rank throws. If this rank only threw an
  // error and left, the others would perhaps name this rank.
  [[noreturn]] void fail(int rank, const std::string& operation, const std::string& reason);
  // Returns how lost ranks come back; null if they cannot.
  virtual Replacements* replacements() { return nullptr; }

 private:
  // fail(), as the transport does it. It throws, but a virtual function cannot be [[noreturn]] with g++.
  virtual void fail_everywhere(int rank, const std::string& operation, const std::string& reason) = 0;
};

// Returns true if this process replaces one that the run had lost. Local, with any transport.
bool is_replacement(Communicator& comm);

// Ends the run with a CommError for `operation` if the rank's process is stopped. `comm` must have arrivals(), here and
// below.
void require_running(Communicator& comm, int rank, std::string_view operation);

// Waits until ready(), however late the rank is. After each timeout of `comm` it requires that the rank's process runs.
void await_rank(Communicator& comm, int rank, std::string_view operation, const std::function<bool()>& ready);

// Waits for a message from rank `from` while that rank is in the run, as await_rank() does. Ends the run with a
// CommError if the rank leaves.
void await_message(Communicator& comm, Work& work, int from);

// Returns how many unread messages to each of `receivers` ranks always fit, even if none of these ranks reads any.
int most_unread(int receivers);

// Waits until at most `most` messages to rank `to` are unread, as await_rank() does, or until it is lost.
void await_reader(Communicator& comm, int to, int most = 0);

// Sends bookkeeping. When it returns, `message` may change or be freed. A transport with arrivals has then copied a
// small message, and a large message (more than kInlineBytes of board.h) has been read. `comm` must have arrivals().
void send_message(Communicator& comm, std::span<const std::byte> message, int to);

}  // namespace zero
