// StoreServer: rank 0's side of RendezvousStore. See rendezvous_store.h.
//
//   StoreServer server({.port = 29500, .name = "run", .secret = rendezvous_secret(token, "run"), .num_clients = 4});
//
// One thread serves all connections and waits for none of them: who is slow, silent or says something else than a rank
// holds up nobody, and until it has proved that it has the secret (zero/rendezvous/handshake.h) it gets a few hundred bytes of memory
// and ten seconds.
//
// A client says who it is (kHere), and when it has met all others (kMet), and hangs up. One that hangs up before has died or
// failed: all others are told who it was (kLost), and the meeting ends.
//
// A server that stays open goes on for ranks that were lost. A new process of such a rank says who it is (kCome), and is a
// replacement until it hangs up. One that comes before all have met ends the meeting, as its predecessor is gone.
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

#include "zero/rendezvous/store_messages.h"
#include "zero/rendezvous/store_session.h"

namespace zero_gloo {

using namespace zero::meeting;  // messages and their handshake

struct StoreServerOptions {
  int port = 0;           // 0: any free one
  bool one_host = false;  // listens on this machine's loopback alone, else on all its addresses
  std::string name;       // of the run, for who meets at the wrong port; no secret
  std::string secret;
  int num_clients = 0;
  bool stays_open = false;  // for replacements, until it is destroyed
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds handshake_limit{10000};
  std::function<void(const std::string& line)> warn = {};  // of a connection that was refused; on the server's thread
};

// A new process of a rank: its k-th after the first.
struct Replacement {
  int rank = 0;
  int number = 0;

  // "2/1": how it names itself, and how its keys in the store begin.
  std::string text() const { return std::to_string(rank) + "/" + std::to_string(number); }
  static std::optional<Replacement> parse(const std::string& text);
};

// The rank whose own key that is: a number.
std::optional<int> rank_of_key(const std::string& key);

class StoreServer {
 public:
  // Throws StoreError when the port is taken.
  explicit StoreServer(StoreServerOptions options);
  // Waits until as many clients as were to come have hung up, the timeout is over, or abandon() was called. Replacements are
  // not waited for.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;
  void abandon();

  // The newest replacement of that rank.
  std::optional<Replacement> replacement(int rank);
  // As a client's kSet.
  void set(const std::string& key, std::vector<char> value);

 private:
  struct Client {
    int socket = -1;
    std::string address;
    std::chrono::steady_clock::time_point until;  // it has time to prove itself
    StoreSession session;
    MessageReader reader;
    std::vector<char> unsent;
    std::string waits_for;    // a key that is not there yet; empty: none
    std::string set_by;       // by this replacement, as text; empty: by anybody
    std::optional<int> rank;  // of those that meet first
    bool has_met = false;
    bool told = false;  // that the meeting has ended
    std::optional<Replacement> replacement;
  };

  void serve();
  bool goes_on() const;
  void wake();
  bool is_here(const std::string& replacement) const;
  void accept_clients();
  // False when the client is to be dropped.
  bool serve_client(Client& client);
  bool answer(Client& client, Message message);
  bool greet(Client& client, const Message& message);
  void answer_waiting();
  static bool send_unsent(Client& client);
  void warn(const std::string& line);
  void drop(std::size_t client);
  void end_meeting(int rank, const std::string& reason);
  void tell_lost();

  StoreServerOptions options_;
  std::chrono::steady_clock::time_point deadline_;
  int listener_ = -1;
  int waker_ = -1;    // an eventfd
  std::mutex mutex_;  // guards all below that is not atomic; the thread holds it except while it waits
  std::map<std::string, std::vector<char>> values_;
  std::vector<Client> clients_;  // in the order of their coming
  int num_finished_ = 0;
  int num_warnings_ = 0;
  std::optional<StoreError> lost_;
  std::atomic<bool> abandoned_ = false;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace zero_gloo
