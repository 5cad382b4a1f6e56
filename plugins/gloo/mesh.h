// Mesh: a context of Gloo that is connected step by step, so it can be given up if a rank ends meanwhile. Gloo's own
// way waits for five times its timeout for the connection of a dead process.
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

#include "plugins/gloo/rendezvous_store.h"

namespace zero_gloo {

class Mesh final : public gloo::Context {
 public:
  // `limit`: a fifth of the longest time that a connection may take.
  Mesh(const std::shared_ptr<gloo::transport::Device>& device, int rank, int size, std::chrono::milliseconds limit);

  // Returns the addresses at which this rank listens, one for each other rank, in order.
  std::vector<char> addresses() const;
  // Connects to rank `other`, whose addresses() are `theirs`.
  void connect(int other, const std::vector<char>& theirs);
};

// Closes `mesh` as soon as await_end() returns, during this object's lifetime, so connect() of the mesh returns.
// await_end() must also return after store.hang_up(), which the destructor calls.
class EndWatch {
 public:
  EndWatch(RendezvousStore& store, std::function<StoreError()> await_end, Mesh& mesh);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  bool gone() const { return gone_; }
  // Returns the result of await_end(), if there is one within `limit`.
  std::optional<StoreError> why(std::chrono::milliseconds limit);

 private:
  RendezvousStore& store_;
  std::atomic<bool> over_ = false, gone_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<StoreError> why_;  // guarded by mutex_
  std::thread thread_;
};

// Collective. Connects all ranks of a run, and hangs up the store. Throws StoreError if a rank dies or cannot be
// reached.
std::shared_ptr<gloo::Context> meet_all(RendezvousStore& store, const std::shared_ptr<gloo::transport::Device>& device,
                                        const zero::LinkRequest& request);

}  // namespace zero_gloo
