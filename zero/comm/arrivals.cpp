#include "zero/comm/arrivals.h"

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/comm/board.h"

namespace zero {

bool is_replacement(Communicator& comm) {
  Arrivals* const arrivals = comm.arrivals();
  Replacements* const replacements = arrivals == nullptr ? nullptr : arrivals->replacements();
  return replacements != nullptr && replacements->is_one();
}

void await_message(Communicator& comm, Work& work, int from) {
  Arrivals& arrivals = *comm.arrivals();
  arrivals.await([&] { return work.try_complete() || arrivals.lost(from); });
  // Asked again: it may have sent before it left.
  if (!work.try_complete())
    throw CommError(from, "receive", fmt::format("it left the run while rank {} waits for it", comm.rank()));
  work.wait();
}

void send_message(Communicator& comm, std::span<const std::byte> message, int to) {
  comm.send(message, to, {.control = true}).wait();
  if (message.size() > kInlineBytes) comm.drain();
}

}  // namespace zero
