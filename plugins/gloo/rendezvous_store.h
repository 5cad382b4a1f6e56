// RendezvousStore: a rank's connection to the key-value store over TCP in which the ranks of gloo find each other.
//
//   client -> server   {operation, key, value}      server -> client   {value}, once the key is set
//
// Each rank stores its addresses under its number, and waits for those of the others. It works between machines, and
// needs a port of rank 0. The port is agreed, or a free port that rank 0 announces at the run's RendezvousPoint. Rank 0
// serves the store (open_store) until every other rank has hung up or the timeout is over. If ranks may come back, it
// serves as long as the run lasts.
//
// A client begins with a handshake (zero/comm/rendezvous/handshake.h): both sides prove that they have the job's token
// and belong to the same run. This keeps out strangers, and separates two runs that meet at one port. Ranks of one
// machine meet only on its loopback. Errors are StoreErrors. A replacement that comes too late blames no rank.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gloo/rendezvous/store.h>

#include "zero/comm/message/message_link.h"

#include "plugins/gloo/store_server.h"

namespace zero_gloo {

inline constexpr const char* kLeft = "rank 0 left while the ranks met";

// Makes the server on rank 0: it listens, and has announced itself.
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
  // Waits for the key. `set_by`: the replacement, as text, that sets it; empty: any rank. Throws StoreError at once if
  // that replacement is gone.
  std::vector<char> get(const std::string& key, const std::string& set_by, std::chrono::milliseconds limit);
  std::vector<char> get(const std::string& key, const std::string& set_by) { return get(key, set_by, limit_); }
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

  // Tells rank 0 that this process is that replacement.
  void come(const Replacement& replacement);
  // Tells rank 0 that this rank has met all others.
  void say_met();
  // Wait until that replacement is gone, the meeting has failed, rank 0 is gone, or another thread has called
  // hang_up(). Return the reason.
  StoreError await_end(const Replacement& replacement);
  StoreError await_end();
  void hang_up();

  // Returns this rank's own address on the way to rank 0, as digits.
  std::string local_address() const;

 private:
  StoreError await_end_of(const std::string& set_by);
  void write(const Message& message);

  int socket_ = -1;
  std::chrono::milliseconds limit_;
  bool is_replacement_;
};

}  // namespace zero_gloo
