// StoreServer: rank 0's side of MeetingStore. See meeting_store.h.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "store_messages.h"

namespace zero_gloo {

class StoreServer {
 public:
  // Listens on all addresses of this host; port 0 is any free one. Throws StoreError when the port is taken.
  StoreServer(int port, std::string run_id, int num_clients, std::chrono::milliseconds timeout);
  // Waits until all clients have hung up, the timeout is over, or abandon() was called.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;
  void abandon() { abandoned_ = true; }

 private:
  struct Client {
    int socket = -1;
    bool greeted = false;
    std::string waits_for;  // a key that is not there yet; empty: none
  };

  void serve();
  void accept_client();
  // False when the client is to be dropped.
  bool serve_client(Client& client);
  void answer_waiting();

  int listener_ = -1;
  std::string run_id_;
  int num_clients_;
  std::chrono::milliseconds timeout_;
  std::map<std::string, std::vector<char>> values_;
  std::vector<Client> clients_;
  int num_finished_ = 0;
  std::atomic<bool> abandoned_ = false;
  std::thread thread_;
};

}  // namespace zero_gloo
