// RendezvousStore: a rank's connection to the key-value store over TCP in which the ranks of gloo find each other.
//
// Each rank puts its addresses under its number and waits for the others'. Works between machines; needs a port of rank
// 0's: the one that was agreed beforehand, or any free one that rank 0 makes known at the run's RendezvousPoint. Rank 0
// serves the store (open_store) until every other rank has hung up or the timeout is over; where ranks may come back, for
// as long as the run lasts.
//
//   client -> server   {operation, key, value}      server -> client   {value}, once the key is there
//
// A client begins with a handshake (zero/rendezvous/handshake.h), in which both sides prove that they have the job's token and are of
// one run: strangers, and two runs that meet at one port, stay apart. Ranks of one machine meet on its loopback alone.
// Errors are StoreErrors.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gloo/rendezvous/store.h>

#include "zero/comm/message_link.h"

#include "store_server.h"

namespace zero_gloo {

inline constexpr const char* kLeft = "rank 0 left while the ranks met";

// On rank 0: it listens, and has announced itself.
std::unique_ptr<StoreServer> open_store(const zero::LinkRequest& request);

class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  // `limit`: for the connection to rank 0, and for each wait.
  RendezvousStore(const zero::LinkRequest& request, std::chrono::milliseconds limit);
  ~RendezvousStore() override;
  RendezvousStore(const RendezvousStore&) = delete;
  RendezvousStore& operator=(const RendezvousStore&) = delete;

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override { return get(key, "", limit_); }
  // `set_by`: the replacement, as text, that sets the key. Throws StoreError at once where that replacement is gone. Empty: anybody.
  std::vector<char> get(const std::string& key, const std::string& set_by, std::chrono::milliseconds limit);
  std::vector<char> get(const std::string& key, const std::string& set_by) { return get(key, set_by, limit_); }
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

  // Tells rank 0 that this process is that replacement.
  void come(const Replacement& replacement);
  // Tells rank 0 that this rank has met all others.
  void say_met();
  // Wait until that replacement is gone, the meeting has failed, rank 0 is gone, or hang_up() was called, by another thread.
  // Return why.
  StoreError await_end(const Replacement& replacement);
  StoreError await_end();
  void hang_up();

  // This rank's own address on the way to rank 0, as digits.
  std::string local_address() const;

 private:
  StoreError await_end_of(const std::string& set_by);

  int socket_ = -1;
  std::chrono::milliseconds limit_;
};

}  // namespace zero_gloo
