// FakeLink: a MessageLink between threads, which can lose ranks and accept them again. For tests of
// MessageCommunicator.
//
// Messages match by (from, to, tag) in order. As in MPI and Gloo they move when both sides have posted. Each process
// has an address in the network: that of a rank's first process is the rank, and of its k-th replacement
// address_of(rank, k).
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "zero/comm/message/message_communicator.h"
#include "zero/comm/message/message_link.h"

namespace zero {

class FakeNetwork {
 public:
  static int address_of(int rank, int life) { return rank + 1000 * life; }
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

  // After this the side's memory may be freed.
  void withdraw(Side& side) {
    const std::scoped_lock lock(mutex_);
    side.withdrawn = true;
  }

  // Number of receives that no send has matched yet.
  std::size_t num_expected() {
    const std::scoped_lock lock(mutex_);
    std::size_t number = 0;
    for (const auto& [key, sides] : receives_) number += sides.size();
    return number;
  }

  // Breaks the connections of a process, as its end does.
  void lose(int address) {
    const std::scoped_lock lock(mutex_);
    lost_.insert(address);
    changed_.notify_all();
  }

  // ---- replacements

  // The process ends when it should meet `peer`, while `peer` waits for it.
  void lose_at_meeting(int address, int peer) {
    const std::scoped_lock lock(mutex_);
    doomed_.emplace(address, peer);
  }

  // Returns the ranks that the process has met, after it has met them. Throws if the process or the run has ended.
  std::vector<int> come(int address) {
    std::unique_lock lock(mutex_);
    comers_.insert(address);
    const auto is_over = [&] { return lost_.contains(address) || lost_.contains(0); };
    changed_.wait(lock, [&] { return is_over() || to_meet_.contains(address); });
    const std::vector<int> peers = to_meet_[address];
    for (const int peer : peers) {
      const std::pair meeting(address, peer);
      changed_.wait(lock, [&] { return is_over() || meetings_.contains(meeting); });
      if (doomed_.contains(meeting)) lost_.insert(address);
      changed_.notify_all();
      if (is_over()) break;
      met_.insert(meeting);
    }
    comers_.erase(address);
    if (!is_over()) return peers;
    const bool is_new = lost_.insert(address).second;
    changed_.notify_all();
    throw std::runtime_error(is_new ? "the run has ended" : "killed");
  }

  // The newest waiting process of a rank; 0: none.
  int waiting(int rank) {
    const std::scoped_lock lock(mutex_);
    int newest = 0;
    for (const int address : comers_)
      if (address % 1000 == rank && !lost_.contains(address) && !to_meet_.contains(address))
        newest = std::max(newest, address);
    return newest;
  }

  void introduce(int rank, std::vector<int> peers) {
    const int address = waiting(rank);
    const std::scoped_lock lock(mutex_);
    to_meet_[address] = std::move(peers);
    introduced_[rank] = address;
    changed_.notify_all();
  }

  // The address of the rank's introduced process, and whether it met the peer.
  std::pair<int, bool> meet(int rank, int peer) {
    std::unique_lock lock(mutex_);
    const std::pair meeting(introduced_[rank], peer);
    meetings_.insert(meeting);
    changed_.notify_all();
    changed_.wait(lock, [&] { return lost_.contains(meeting.first) || met_.contains(meeting); });
    return {meeting.first, met_.contains(meeting)};
  }

  // The largest number of messages with one key that waited for their other side at the same time.
  std::size_t most_waiting() {
    const std::scoped_lock lock(mutex_);
    return most_waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::deque<std::shared_ptr<Side>>> sends_, receives_;
  std::set<int> lost_;    // addresses
  std::set<int> comers_;  // addresses
  std::map<int, std::vector<int>> to_meet_;
  std::map<int, int> introduced_;  // addresses, by rank
  std::set<std::pair<int, int>> meetings_, met_, doomed_;
  std::size_t most_waiting_ = 0;
};

class FakeLink final : public MessageLink, private MessageLink::Door {
 public:
  // `most`: the most replacements of all ranks together. If `life` is above 0, this is a replacement. It then waits
  // until it has met its peers.
  FakeLink(FakeNetwork& network, int rank, int life = 0, int most = 0)
      : network_(network), rank_(rank), address_(FakeNetwork::address_of(rank, life)), most_(most) {
    if (life > 0) met_ = network.come(address_);
  }
  ~FakeLink() override { network_.lose(address_); }
  FakeLink(const FakeLink&) = delete;
  FakeLink& operator=(const FakeLink&) = delete;

  std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) override {
    const int peer = address_of(to);
    auto side = network_.post(true, {address_, peer, tag}, const_cast<std::byte*>(data.data()), data.size());
    return std::make_unique<FakeTransfer>(network_, std::move(side), address_, peer);
  }
  std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) override {
    const int peer = address_of(from);
    auto side = network_.post(false, {peer, address_, tag}, data.data(), data.size());
    return std::make_unique<FakeTransfer>(network_, std::move(side), address_, peer);
  }
  void abandon() override {}
  MessageLink::Door* door() override { return most_ > 0 ? this : nullptr; }

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

  int most() const override { return most_; }
  bool is_replacement() const override { return !met_.empty(); }
  bool is_waiting(int rank) override { return network_.waiting(rank) != 0; }
  void introduce(int rank, std::span<const int> peers) override {
    network_.introduce(rank, std::vector<int>(peers.begin(), peers.end()));
  }
  bool meet(int rank) override {
    const auto [address, met] = network_.meet(rank, rank_);
    addresses_[rank] = address;
    return met;
  }
  const char* why() const override { return "nobody came"; }
  bool has_met(int rank) const override { return std::ranges::find(met_, rank) != met_.end(); }

  int address_of(int rank) const {
    const auto newer = addresses_.find(rank);
    return newer == addresses_.end() ? rank : newer->second;
  }

  FakeNetwork& network_;
  int rank_, address_, most_;
  std::vector<int> met_;
  std::map<int, int> addresses_;  // of ranks with a replacement
};

// Runs the body on every rank, and returns the error of each. A rank that throws is lost.
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
