// FakeLink: a MessageLink between threads that can lose ranks, for the tests of what MessageCommunicator makes of it.
//
// Messages match by (from, to, tag) in order, and move when both sides are there, as in MPI and Gloo.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "zero/comm/message_communicator.h"
#include "zero/comm/message_link.h"

namespace zero {

class FakeNetwork {
 public:
  using Key = std::tuple<int, int, std::uint64_t>;  // from, to, tag

  struct Side {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool done = false;
    bool withdrawn = false;
  };

  std::shared_ptr<Side> post(bool send, const Key& key, std::byte* data, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    auto side = std::make_shared<Side>(Side{data, bytes});
    if (send && lost_.contains(std::get<0>(key))) return side;
    auto& others = (send ? receives_ : sends_)[key];
    std::erase_if(others, [](const auto& other) { return other->withdrawn; });
    if (others.empty()) {
      (send ? sends_ : receives_)[key].push_back(side);
      most_waiting_ = std::max(most_waiting_, sends_[key].size());
      return side;
    }
    const auto other = others.front();
    others.pop_front();
    if (std::min(bytes, other->bytes) > 0)
      std::memcpy(send ? other->data : data, send ? data : other->data, std::min(bytes, other->bytes));
    side->done = other->done = true;
    changed_.notify_all();
    return side;
  }

  MessageLink::Status wait(const Side& side, int self, int peer, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return side.done || lost_.contains(self) || lost_.contains(peer); };
    if (!changed_.wait_for(lock, limit, ready)) return MessageLink::Status::kLate;
    return side.done ? MessageLink::Status::kDone : MessageLink::Status::kGone;
  }

  MessageLink::Status test(const Side& side, int self, int peer) {
    const std::scoped_lock lock(mutex_);
    if (side.done) return MessageLink::Status::kDone;
    const bool gone = lost_.contains(self) || lost_.contains(peer);
    return gone ? MessageLink::Status::kGone : MessageLink::Status::kLate;
  }

  // Its memory may go.
  void withdraw(Side& side) {
    const std::scoped_lock lock(mutex_);
    side.withdrawn = true;
  }

  // Messages that are expected and not there yet.
  std::size_t num_expected() {
    const std::scoped_lock lock(mutex_);
    std::size_t number = 0;
    for (const auto& [key, sides] : receives_) number += sides.size();
    return number;
  }

  // The rank's connections break, as when its process ends.
  void lose(int rank) {
    const std::scoped_lock lock(mutex_);
    lost_.insert(rank);
    changed_.notify_all();
  }

  // The most messages with one key that ever waited for their other side.
  std::size_t most_waiting() {
    const std::scoped_lock lock(mutex_);
    return most_waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::deque<std::shared_ptr<Side>>> sends_, receives_;
  std::set<int> lost_;
  std::size_t most_waiting_ = 0;
};

class FakeLink final : public MessageLink {
 public:
  FakeLink(FakeNetwork& network, int rank) : network_(network), rank_(rank) {}
  ~FakeLink() override { network_.lose(rank_); }
  FakeLink(const FakeLink&) = delete;
  FakeLink& operator=(const FakeLink&) = delete;

  std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) override {
    auto side = network_.post(true, {rank_, to, tag}, const_cast<std::byte*>(data.data()), data.size());
    return std::make_unique<FakeTransfer>(network_, std::move(side), rank_, to);
  }
  std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) override {
    auto side = network_.post(false, {from, rank_, tag}, data.data(), data.size());
    return std::make_unique<FakeTransfer>(network_, std::move(side), rank_, from);
  }
  void abandon() override {}

 private:
  class FakeTransfer final : public Transfer {
   public:
    FakeTransfer(FakeNetwork& network, std::shared_ptr<FakeNetwork::Side> side, int self, int peer)
        : network_(network), side_(std::move(side)), self_(self), peer_(peer) {}
    ~FakeTransfer() override { network_.withdraw(*side_); }
    Status wait(std::chrono::milliseconds limit) override { return network_.wait(*side_, self_, peer_, limit); }
    Status test() override { return network_.test(*side_, self_, peer_); }
    const char* reason() const override { return "a cable was cut"; }

   private:
    FakeNetwork& network_;
    std::shared_ptr<FakeNetwork::Side> side_;
    int self_, peer_;
  };

  FakeNetwork& network_;
  int rank_;
};

// Runs the body on every rank; returns what each threw. A rank that throws is lost.
inline std::vector<std::string> run_over(FakeNetwork& network, int world, std::chrono::milliseconds timeout,
                                         const std::function<void(Communicator&)>& body) {
  std::vector<std::string> ends(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      MessageCommunicator comm(std::make_unique<FakeLink>(network, rank), "fake", rank, world, timeout);
      try {
        body(comm);
      } catch (const std::exception& error) {
        ends[static_cast<std::size_t>(rank)] = error.what();
        network.lose(rank);
      }
    });
  }
  threads.clear();
  return ends;
}

}  // namespace zero
