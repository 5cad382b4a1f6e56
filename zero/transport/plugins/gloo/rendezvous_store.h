// RendezvousStore: a key-value store over TCP, served by rank 0 while the ranks of gloo find each other.
//
// Each rank puts its addresses under its number and waits for the others'. Works between machines; needs a port of rank
// 0's: the one that was agreed beforehand, or any free one that rank 0 makes known at the run's RendezvousPoint. The
// server runs on a thread of rank 0 that sleeps in poll(), until every other rank has hung up or the timeout is over.
//
//   client -> server   {operation, key, value}      server -> client   {value}, once the key is there
//
// A client begins with a handshake (handshake.h), in which both sides prove that they have the job's token and are of
// one run: strangers, and two runs that meet at one port, stay apart. Ranks of one machine meet on its loopback alone.
// Errors are StoreErrors.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gloo/rendezvous/store.h>

#include "zero/comm/message_link.h"

namespace zero_gloo {

class StoreServer;

class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  explicit RendezvousStore(const zero::LinkRequest& request);
  ~RendezvousStore() override;

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

  // This rank's own address on the way to rank 0, as digits.
  std::string local_address() const;

  // Before an error of this rank is reported: the others learn at once that rank 0 has left.
  void abandon();

 private:
  std::unique_ptr<StoreServer> server_;  // rank 0
  int socket_ = -1;
  std::chrono::milliseconds timeout_;
};

}  // namespace zero_gloo
