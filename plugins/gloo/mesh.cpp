#include "plugins/gloo/mesh.h"

#include <string>
#include <utility>

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>

namespace zero_gloo {
namespace {

constexpr std::chrono::milliseconds kTimeForCause{1000};

// Returns the position of `rank` among the other ranks of rank `of`.
int index_among_others(int rank, int of) {
  return rank < of ? rank : rank - 1;
}

}  // namespace

Mesh::Mesh(const std::shared_ptr<gloo::transport::Device>& device, int rank, int size, std::chrono::milliseconds limit)
    : gloo::Context(rank, size) {
  setTimeout(limit);
  device_ = device;
  transportContext_ = device->createContext(rank, size);
  transportContext_->setTimeout(limit);
  for (int other = 0; other < size; ++other)
    if (other != rank) transportContext_->createPair(other);
}

std::vector<char> Mesh::addresses() const {
  std::vector<char> all;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const std::vector<char> one = transportContext_->getPair(other)->address().bytes();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void Mesh::connect(int other, const std::vector<char>& theirs) {
  const std::ptrdiff_t bytes = std::ssize(theirs) / (size - 1);
  const auto begin = theirs.begin() + index_among_others(rank, other) * bytes;
  getPair(other)->connect(std::vector<char>(begin, begin + bytes));
}

EndWatch::EndWatch(RendezvousStore& store, std::function<StoreError()> await_end, Mesh& mesh)
    : store_(store), thread_([this, await_end = std::move(await_end), &mesh] {
        const StoreError why = await_end();
        if (over_) return;
        {
          const std::scoped_lock lock(mutex_);
          why_.emplace(why);
        }
        changed_.notify_all();
        gone_ = true;
        // Repeatedly, because connect() may open a connection that was closed before.
        for (; !over_; std::this_thread::sleep_for(std::chrono::milliseconds(10))) mesh.closeConnections();
      }) {}

EndWatch::~EndWatch() {
  over_ = true;
  store_.hang_up();
  thread_.join();
}

std::optional<StoreError> EndWatch::why(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return why_.has_value(); });
  return why_;
}

std::shared_ptr<gloo::Context> meet_all(RendezvousStore& store, const std::shared_ptr<gloo::transport::Device>& device,
                                        const zero::LinkRequest& request) {
  auto mesh =
      std::make_shared<Mesh>(device, request.rank, request.world, std::chrono::milliseconds(request.timeout_ms / 5));
  store.set(std::to_string(request.rank), mesh->addresses());
  std::vector<std::vector<char>> theirs(static_cast<std::size_t>(request.world));
  for (int other = 0; other < request.world; ++other)
    if (other != request.rank) theirs[static_cast<std::size_t>(other)] = store.get(std::to_string(other));
  EndWatch watch(
      store, [&store] { return store.await_end(); }, *mesh);
  for (int other = 0; other < request.world && !watch.gone(); ++other) {
    if (other == request.rank) continue;
    try {
      mesh->connect(other, theirs[static_cast<std::size_t>(other)]);
    } catch (const std::exception& error) {
      // The rank may have left because of another rank, which rank 0 names to all.
      throw watch.why(kTimeForCause).value_or(StoreError(error.what(), other));
    }
  }
  if (watch.gone()) throw watch.why(kTimeForCause).value_or(StoreError(kLeft, 0));
  store.say_met();
  return mesh;
}

}  // namespace zero_gloo
