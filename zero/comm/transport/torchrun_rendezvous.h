// TorchrunRendezvous: the address of rank 0 of a torchrun run, kept in torchrun's own store.
//
//   TorchrunRendezvous point(detect_ranks({}, getenv), 60s);   // connects to the store
//   LinkRequest request{.rendezvous_point = &point};
//
// torchrun itself listens at MASTER_PORT, so rank 0 takes any free port and stores "ADDRESS PORT NAME" under the run's
// key, `zero/RUN ID/rank 0`. NAME is drawn anew each time; rank 0 answers only a rank that proves to know it.
//
// The store outlives a restart of the ranks. The key does not have the restart count. Agents of several machines count
// only failures of their own ranks, so ranks of one round may have different counts. A rank detects a stale entry,
// because no process listens there, or one that does not know NAME. It then looks again.
//
// Local. Only the constructor throws (CommError); see RendezvousPoint in message_link.h.
#pragma once

#include <chrono>
#include <string>

#include "zero/comm/message/message_link.h"
#include "zero/comm/rendezvous/detect_ranks.h"
#include "zero/comm/rendezvous/tcp_store.h"

namespace zero {

class TorchrunRendezvous final : public RendezvousPoint {
 public:
  TorchrunRendezvous(const RankEnvironment& ranks, std::chrono::milliseconds timeout);

  bool announce(int port, LinkFailure* failure) override;
  bool look_up(Place* place, LinkFailure* failure) override;

  // Returns the name that the ranks prove to each other that they know.
  const std::string& name() const { return name_; }

 private:
  TcpStore store_;
  std::string key_;
  std::string name_;
  std::string master_addr_;
};

}  // namespace zero
