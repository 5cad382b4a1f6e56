// ConnectionWatch: ends waits for a rank whose connection has failed, where Gloo would let them wait until their limit.
//
// When a connection fails, Gloo tells the transfers that have not begun, but not the one whose bytes are half sent or half
// received. So each connection gets one more receive, which no rank ever answers: Gloo tells that one. A thread looks at
// these receives ten times a second, and aborts waits that have lasted a second over a connection that has failed. Within
// that second a transfer whose last bytes arrived before the failure is done. Local.
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

// The state of the connection to `place` of `context`.
class Connection {
 public:
  Connection(std::shared_ptr<gloo::Context> context, int place);

  bool is_to(const std::shared_ptr<gloo::Context>& context, int place) const;
  // Waits for nothing. Not const: it asks Gloo. Called by one thread at a time.
  bool has_failed();
  // What Gloo said; empty until has_failed() was true.
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
  // All waits have ended.
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // To `rank`, which is reached by `place` of `context`. Called by the link's thread.
  std::shared_ptr<Connection> connection(int rank, const std::shared_ptr<gloo::Context>& context, int place);

  // While it lives, a thread waits for a transfer over that connection. `abort` makes that wait return, from another
  // thread; it is called at most once.
  class Waiting {
   public:
    Waiting(ConnectionWatch& watch, std::shared_ptr<Connection> connection, std::function<void()> abort);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    // What Gloo said of the connection; empty: the wait was not aborted here.
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

  std::map<int, std::shared_ptr<Connection>> connections_;  // by rank: the newest
  std::mutex mutex_;                                        // guards all below, and what connections are asked
  std::condition_variable over_changed_;
  std::list<Waiting*> waiting_;
  bool over_ = false;
  std::thread thread_;  // from the first wait on
};

}  // namespace zero_gloo
