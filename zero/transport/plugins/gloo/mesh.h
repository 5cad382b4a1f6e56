// Mesh: a context of Gloo that is connected step by step, so that it can be given up where a rank ends meanwhile. Gloo's own
// way waits for five times its timeout for the connection of a process that is gone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>

#include "rendezvous_store.h"

namespace zero_gloo {

class Mesh final : public gloo::Context {
 public:
  // `limit`: a fifth of the longest that a connection may take.
  Mesh(const std::shared_ptr<gloo::transport::Device>& device, int rank, int size, std::chrono::milliseconds limit);

  // Of the other ranks in order: where this one listens for each.
  std::vector<char> addresses() const;
  // To that rank, whose addresses() these are.
  void connect(int other, const std::vector<char>& theirs);
};

// While it lives: closes `mesh`, so that its connect() returns, as soon as await_end() returns. await_end() must also return
// after store.hang_up(), which the destructor calls.
class EndWatch {
 public:
  EndWatch(RendezvousStore& store, std::function<StoreError()> await_end, Mesh& mesh);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  bool gone() const { return gone_; }
  // What await_end() returned, within `limit`.
  std::optional<StoreError> why(std::chrono::milliseconds limit);

 private:
  RendezvousStore& store_;
  std::atomic<bool> over_ = false, gone_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<StoreError> why_;  // guarded by mutex_
  std::thread thread_;
};

// Collective. Connects all ranks of a run. Hangs up the store. Throws StoreError where one of them dies, or another cannot be
// reached.
std::shared_ptr<gloo::Context> meet_all(RendezvousStore& store, const std::shared_ptr<gloo::transport::Device>& device,
                                        const zero::LinkRequest& request);

}  // namespace zero_gloo
