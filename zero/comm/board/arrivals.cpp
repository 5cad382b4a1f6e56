#include "zero/comm/board/arrivals.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/board.h"

namespace zero {

void Arrivals::fail(int rank, const std::string& operation, const std::string& reason) {
  fail_everywhere(rank, operation, reason);
  std::abort();  // it throws
}

bool is_replacement(Communicator& comm) {
  Arrivals* const arrivals = comm.arrivals();
  Replacements* const replacements = arrivals == nullptr ? nullptr : arrivals->replacements();
  return replacements != nullptr && replacements->is_one();
}

void require_running(Communicator& comm, int rank, std::string_view operation) {
  Arrivals& arrivals = *comm.arrivals();
  if (arrivals.is_stopped(rank))
    arrivals.fail(rank, std::string(operation),
                  fmt::format("it is absent after {} ms; {}", comm.timeout().count(), arrivals.known_state(rank)));
}

void await_rank(Communicator& comm, int rank, std::string_view operation, const std::function<bool()>& ready) {
  while (!comm.arrivals()->await(ready, comm.timeout())) require_running(comm, rank, operation);
}

void await_message(Communicator& comm, Work& work, int from) {
  Arrivals& arrivals = *comm.arrivals();
  await_rank(comm, from, "receive", [&] { return work.try_complete() || arrivals.lost(from); });
  // Asked again, because the rank may have sent before it left.
  if (!work.try_complete())
    arrivals.fail(from, "receive", fmt::format("it left the run while rank {} waits for it", comm.rank()));
  work.wait();
}

int most_unread(int receivers) {
  constexpr int kEnough = 8;  // a fast reader never waits with so many
  return std::clamp(kMaxBoardRanks / receivers, 1, kEnough);
}

void await_reader(Communicator& comm, int to, int most) {
  Arrivals& arrivals = *comm.arrivals();
  await_rank(comm, to, "send", [&] { return arrivals.unread(to) <= most; });  // 0 if it is lost
}

void send_message(Communicator& comm, std::span<const std::byte> message, int to) {
  comm.send(message, to, {.control = true}).wait();
  if (message.size() > kInlineBytes) await_reader(comm, to);
}

}  // namespace zero
