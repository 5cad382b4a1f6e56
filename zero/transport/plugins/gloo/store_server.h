// StoreServer: rank 0's side of RendezvousStore. See rendezvous_store.h.
//
//   StoreServer server({.port = 29500, .name = "run", .secret = rendezvous_secret(token, "run"), .num_clients = 4});
//
// One thread serves all connections and waits for none of them: who is slow, silent or says something else than a rank
// holds up nobody, and until it has proved that it has the secret (handshake.h) it gets a few hundred bytes of memory
// and ten seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "store_messages.h"
#include "store_session.h"

namespace zero_gloo {

struct StoreServerOptions {
  int port = 0;           // 0: any free one
  bool one_host = false;  // listens on this machine's loopback alone, else on all its addresses
  std::string name;       // of the run, for who meets at the wrong port; no secret
  std::string secret;
  int num_clients = 0;
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds handshake_limit{10000};
  std::function<void(const std::string& line)> warn = {};  // of a connection that was refused; on the server's thread
};

class StoreServer {
 public:
  // Throws StoreError when the port is taken.
  explicit StoreServer(StoreServerOptions options);
  // Waits until all clients have hung up, the timeout is over, or abandon() was called.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;
  void abandon() { abandoned_ = true; }

 private:
  struct Client {
    int socket = -1;
    std::string address;
    std::chrono::steady_clock::time_point until;  // it has time to prove itself
    StoreSession session;
    MessageReader reader;
    std::vector<char> unsent;
    std::string waits_for;  // a key that is not there yet; empty: none
  };

  void serve();
  void accept_clients();
  // False when the client is to be dropped.
  bool serve_client(Client& client);
  bool answer(Client& client, Message message);
  bool greet(Client& client, const Message& message);
  void answer_waiting();
  static bool send_unsent(Client& client);
  void warn(const std::string& line);
  void drop(std::size_t client);

  StoreServerOptions options_;
  int listener_ = -1;
  std::map<std::string, std::vector<char>> values_;
  std::vector<Client> clients_;  // in the order of their coming
  int num_finished_ = 0;
  int num_warnings_ = 0;
  std::atomic<bool> abandoned_ = false;
  std::thread thread_;
};

}  // namespace zero_gloo
