#include "mesh.h"

#include <string>
#include <utility>

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>

namespace zero_gloo {
namespace {

// Of a rank among the others of `of`.
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

EndWatch::EndWatch(RendezvousStore& store, std::function<void()> await_end, Mesh& mesh)
    : store_(store), thread_([this, await_end = std::move(await_end), &mesh] {
        await_end();
        if (over_) return;
        gone_ = true;
        // Again and again: connect() may open one that was closed before.
        for (; !over_; std::this_thread::sleep_for(std::chrono::milliseconds(10))) mesh.closeConnections();
      }) {}

EndWatch::~EndWatch() {
  over_ = true;
  store_.hang_up();
  thread_.join();
}

std::shared_ptr<gloo::Context> meet_all(RendezvousStore& store, const std::shared_ptr<gloo::transport::Device>& device,
                                        const zero::LinkRequest& request) {
  auto mesh =
      std::make_shared<Mesh>(device, request.rank, request.world, std::chrono::milliseconds(request.timeout_ms));
  store.set(std::to_string(request.rank), mesh->addresses());
  std::vector<std::vector<char>> theirs(static_cast<std::size_t>(request.world));
  for (int other = 0; other < request.world; ++other)
    if (other != request.rank) theirs[static_cast<std::size_t>(other)] = store.get(std::to_string(other));
  const EndWatch watch(
      store, [&store] { store.await_end(); }, *mesh);
  for (int other = 0; other < request.world && !watch.gone(); ++other)
    if (other != request.rank) mesh->connect(other, theirs[static_cast<std::size_t>(other)]);
  if (watch.gone()) throw StoreError(kLeft, 0);
  return mesh;
}

}  // namespace zero_gloo
