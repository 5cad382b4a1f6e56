// ConnectionWatch: ends waits for a rank whose connection has failed, which Gloo would let wait until their limit.
//
// When a connection fails, Gloo notifies the transfers that have not begun, but not a transfer whose bytes are half
// sent or half received. So each connection gets one more receive, which no rank ever answers, and which Gloo notifies.
// A thread checks these receives ten times a second, and aborts waits that have lasted a second over a failed
// connection. Within that second, a transfer whose last bytes arrived before the failure completes. Local.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

namespace zero_gloo {

// The state of the connection to rank `place` of `context`.
class Connection {
 public:
  Connection(std::shared_ptr<gloo::Context> context, int place);

  bool is_to(const std::shared_ptr<gloo::Context>& context, int place) const;
  // Never waits. Not const, because it calls Gloo. Called by one thread at a time.
  bool has_failed();
  // Returns Gloo's error text; empty until has_failed() was true.
  const std::string& reason() const { return reason_; }

 private:
  std::shared_ptr<gloo::Context> context_;
  int place_;
  char byte_ = 0;
  std::unique_ptr<gloo::transport::UnboundBuffer> never_received_;
  std::string reason_;
};

class ConnectionWatch {
 public:
  ConnectionWatch() = default;
  // All waits must have ended.
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // Returns the connection to `rank`, which is rank `place` of `context`. Called by the link's thread.
  std::shared_ptr<Connection> connection(int rank, const std::shared_ptr<gloo::Context>& context, int place);

  // A wait of a thread for a transfer over that connection, during this object's lifetime. `abort` makes the wait
  // return; it is called at most once, by another thread.
  class Waiting {
   public:
    Waiting(ConnectionWatch& watch, std::shared_ptr<Connection> connection, std::function<void()> abort);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    // Returns Gloo's error text for the connection; empty: the wait was not aborted here.
    std::string why_aborted();

   private:
    friend class ConnectionWatch;
    ConnectionWatch& watch_;
    std::shared_ptr<Connection> connection_;
    std::function<void()> abort_;
    std::chrono::steady_clock::time_point since_;
    bool aborted_ = false;
    std::list<Waiting*>::iterator place_;
  };

 private:
  void look();

  std::map<int, std::shared_ptr<Connection>> connections_;  // by rank: the newest connection
  std::mutex mutex_;                                        // guards all members below, and calls of connections
  std::condition_variable over_changed_;
  std::list<Waiting*> waiting_;
  bool over_ = false;
  std::thread thread_;  // started by the first wait
};

}  // namespace zero_gloo
