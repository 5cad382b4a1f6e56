// StoreServer: rank 0's side of RendezvousStore (rendezvous_store.h).
//
//   StoreServer server({.port = 29500, .name = "run", .secret = rendezvous_secret(token, "run"), .num_clients = 4});
//
// One thread serves all connections and never waits for one, so a slow, silent or foreign client delays nobody. Until a
// client has proved that it has the secret (zero/comm/rendezvous/handshake.h), it gets a few hundred bytes of memory
// and ten seconds.
//
// A client sends its rank (kHere) and, when it has met all others, kMet, and hangs up. A client that hangs up earlier
// has died or failed: all others are told its rank (kLost), and the meeting ends.
//
// A server that stays open also serves replacements of lost ranks. A new process of such a rank sends kCome, and is a
// replacement until it hangs up. If it comes before all have met, the meeting ends, because its predecessor has died. A
// server that ends tells all replacements (kLost). It first completes handshakes that have begun.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "zero/comm/rendezvous/store_messages.h"
#include "zero/comm/rendezvous/store_session.h"

namespace zero_gloo {

using namespace zero::meeting;  // messages and their handshake

struct StoreServerOptions {
  int port = 0;           // 0: any free one
  bool one_host = false;  // true: listens only on this machine's loopback, else on all its addresses
  std::string name;       // name of the run, for clients at the wrong port; no secret
  std::string secret;
  int num_clients = 0;
  bool stays_open = false;  // true: serves replacements until it is destroyed
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds handshake_limit{10000};
  // Reports refused connections; called on the server's thread.
  std::function<void(const std::string& line)> warn = {};
};

// A new process of a rank: its k-th after the first.
struct Replacement {
  int rank = 0;
  int number = 0;

  // Returns "2/1": its name in messages, and the start of its keys in the store.
  std::string text() const { return std::to_string(rank) + "/" + std::to_string(number); }
  static std::optional<Replacement> parse(const std::string& text);
};

// Returns the rank whose own key `key` is: a number.
std::optional<int> rank_of_key(const std::string& key);

class StoreServer {
 public:
  // Throws StoreError if the port is taken.
  explicit StoreServer(StoreServerOptions options);
  // Waits until all expected clients have hung up, the timeout is over, or abandon() was called. Then waits for
  // handshakes that have begun, if it stays open: at most options.handshake_limit.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;
  void abandon();

  // Returns the newest replacement of that rank.
  std::optional<Replacement> replacement(int rank);
  // Sets a value, as a client's kSet does.
  void set(const std::string& key, std::vector<char> value);

 private:
  struct Client {
    int socket = -1;
    std::string address;
    std::chrono::steady_clock::time_point until;  // end of its time for the handshake
    StoreSession session;
    MessageReader reader;
    std::vector<char> unsent;
    std::string waits_for;    // the key that it waits for; empty: none
    std::string set_by;       // replacement, as text, that sets the key; empty: any client
    std::optional<int> rank;  // only of ranks that meet first
    bool has_met = false;
    bool told = false;  // true: it knows that the meeting, or the run, has ended
    std::optional<Replacement> replacement;
  };

  void serve();
  bool serve_events(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit);
  bool goes_on() const;
  bool has_strangers() const;
  void wake();
  bool is_here(const std::string& replacement) const;
  void accept_clients();
  // Returns false if the client must be dropped.
  bool serve_client(Client& client);
  bool answer(Client& client, Message message);
  bool greet(Client& client, const Message& message);
  void answer_waiting();
  static bool send_unsent(Client& client);
  void warn(const std::string& line);
  void drop(std::size_t client);
  void end_meeting(int rank, const std::string& reason);
  void send_lost();
  void send_over();
  static void send_end(Client& client, const std::string& culprit, const std::string& reason);

  StoreServerOptions options_;
  std::chrono::steady_clock::time_point deadline_;
  int listener_ = -1;
  int waker_ = -1;    // an eventfd
  std::mutex mutex_;  // guards all non-atomic members below; the thread holds it except while it waits
  std::map<std::string, std::vector<char>> values_;
  std::vector<Client> clients_;  // in order of arrival
  int num_finished_ = 0;
  int num_warnings_ = 0;
  std::optional<StoreError> lost_;
  bool is_over_ = false;  // true: the run has ended, and nobody takes replacements back
  std::atomic<bool> abandoned_ = false;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace zero_gloo
