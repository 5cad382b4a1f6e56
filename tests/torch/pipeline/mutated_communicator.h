// MutatedCommunicator: leaves out one operation of this rank, sends it elsewhere or later, or drops the peers' part.
//
//   Mutation mutation{.operation = 7, .change = Change::kLeaveOut};
//   MutatedCommunicator comm(std::move(real), mutation);
//   mutation.is_on = true;    // operations are counted from now on, those of groups too
//
// Elements are fp32. What is not received is zero, so a mutated run is the same each time.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/comm/group.h"

#include "tests/support/forwarded_communicator.h"

namespace zero::tests {

enum class Change {
  kLeaveOut,   // the operation is not begun
  kElsewhere,  // of a send: to another rank
  kLater,      // of a send: after the next one
  kNoWait,     // of a receive: the bytes are used before they are there
  kOwnPart     // of a collective: the result lacks the other ranks' part
};
inline std::string_view name_of(Change change) {
  switch (change) {
    case Change::kLeaveOut:
      return "left out";
    case Change::kElsewhere:
      return "sent to another rank";
    case Change::kLater:
      return "sent after the next message";
    case Change::kNoWait:
      return "not waited for";
    case Change::kOwnPart:
      return "without the other ranks' part";
  }
  return "";
}

// One operation of a rank, and its possible changes.
struct MutableOperation {
  std::string text;
  std::vector<Change> changes;
};

struct Mutation {
  int operation = -1;  // number among the rank's operations; -1: none
  Change change = Change::kLeaveOut;
  bool is_on = false;
  // Set: the change had no effect, because what was left out is padding, or no message followed a late one.
  bool is_void = false;
  std::vector<MutableOperation> seen{};

  // Returns true if this operation is to be changed.
  bool chooses(std::string text, std::vector<Change> changes) {
    if (!is_on) return false;
    seen.push_back({std::move(text), std::move(changes)});
    return std::ssize(seen) - 1 == operation;
  }
};

class MutatedCommunicator final : public ForwardedCommunicator, private GroupOpener {
 public:
  // `mutation` must outlive it.
  MutatedCommunicator(std::unique_ptr<Communicator> real, Mutation& mutation)
      : ForwardedCommunicator(*real), real_(std::move(real)), mutation_(mutation) {}

  GroupOpener* groups() override { return real_->groups() == nullptr ? nullptr : this; }

  Work send(std::span<const std::byte> data, int to, CommTag tag) override {
    const bool chosen = mutation_.chooses(fmt::format("send to rank {} ({} bytes)", to, data.size()),
                                          {Change::kLeaveOut, Change::kElsewhere, Change::kLater});
    if (!chosen) {
      Work work = real_->send(data, to, tag);
      send_later_ones(/*is_followed=*/true);
      return work;
    }
    if (mutation_.change == Change::kElsewhere) return real_->send(data, other_rank(to), tag);
    if (mutation_.change == Change::kLater) later_.push_back({{data.begin(), data.end()}, to, tag, false});
    return {};
  }

  Work receive(std::span<std::byte> data, int from, CommTag tag) override {
    if (!mutation_.chooses(fmt::format("receive from rank {} ({} bytes)", from, data.size()),
                           {Change::kLeaveOut, Change::kNoWait}))
      return real_->receive(data, from, tag);
    std::ranges::fill(data, std::byte{0});
    if (mutation_.change == Change::kNoWait) {
      unused_.emplace_back(data.size());
      late_.push_back(real_->receive(unused_.back(), from, tag));
    }
    return {};
  }

  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    return collective("all_gather", out, [=, this] { return real_->all_gather(in, out, tag); },
                      {tag.blocks.offset(rank(), world(), out.size()), in.size()});
  }
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    const std::size_t block = out.size() / static_cast<std::size_t>(world());
    return collective("all_to_all", out, [=, this] { return real_->all_to_all(in, out, tag); },
                      {block * static_cast<std::size_t>(rank()), block});
  }
  // The root's bytes are its own.
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override {
    return collective("broadcast", data, [=, this] { return real_->broadcast(data, root, tag); },
                      {0, rank() == root ? data.size() : 0});
  }

  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override {
    const bool chosen = mutation_.chooses(fmt::format("reduce_scatter ({} bytes)", request.in.size()),
                                          changes_of_collective(world() > 1 ? 1 : 0));
    if (!chosen) return real_->reduce_scatter(request, tag);
    if (mutation_.change == Change::kLeaveOut) return {};
    const std::span<const std::byte> block = request.in.subspan(tag.blocks.offset(rank(), world(), request.in.size()),
                                                                tag.blocks.size(rank(), world(), request.in.size()));
    std::vector<float> own = floats_of(block);
    if (request.accumulate || !request.onto.empty()) {
      const std::vector<float> onto =
          floats_of(request.accumulate ? std::span<const std::byte>(request.out) : request.onto);
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += onto[i];
    }
    return then(real_->reduce_scatter(request, tag), [this, own, out = request.out] {
      mutation_.is_void = std::memcmp(out.data(), own.data(), out.size()) == 0;
      std::memcpy(out.data(), own.data(), out.size());
    });
  }

  void drain() override {
    send_later_ones(/*is_followed=*/false);
    for (Work& work : late_) work.wait();
    late_.clear();
    real_->drain();
  }

 private:
  struct Later {
    std::vector<std::byte> data;
    int to = 0;
    CommTag tag;
    bool sent = false;
  };
  struct OwnPart {
    std::size_t offset = 0, bytes = 0;
  };
  class Changed final : public Work::Operation {
   public:
    Changed(Work work, std::function<void()> then) : work_(std::move(work)), then_(std::move(then)) {}
    void wait() override {
      work_.wait();
      then_();
    }

   private:
    Work work_;
    std::function<void()> then_;
  };

  static Work then(Work work, std::function<void()> change) {
    return Work(std::make_unique<Changed>(std::move(work), std::move(change)));
  }
  static std::vector<float> floats_of(std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  static std::vector<Change> changes_of_collective(std::size_t others) {
    if (others == 0) return {};
    return {Change::kLeaveOut, Change::kOwnPart};
  }

  template <typename Begin>
  Work collective(std::string_view name, std::span<std::byte> out, Begin begin, OwnPart own) {
    std::vector<Change> changes = changes_of_collective(world() > 1 ? 1 : 0);
    if (own.bytes == out.size() && !changes.empty()) changes.pop_back();
    if (!mutation_.chooses(fmt::format("{} ({} bytes)", name, out.size()), changes)) return begin();
    if (mutation_.change == Change::kLeaveOut) return {};
    const std::vector<std::byte> before(out.begin(), out.end());
    return then(begin(), [this, before, out, own] {
      const std::vector<std::byte> whole(out.begin(), out.end());
      std::memcpy(out.data(), before.data(), own.offset);
      const std::size_t end = own.offset + own.bytes;
      std::memcpy(out.data() + end, before.data() + end, out.size() - end);
      mutation_.is_void = std::ranges::equal(whole, out);
    });
  }

  int other_rank(int to) const {
    for (int other = 0; other < world(); ++other)
      if (other != to && other != rank()) return other;
    return to;
  }
  void send_later_ones(bool is_followed) {
    for (Later& later : later_) {
      if (std::exchange(later.sent, true)) continue;
      real_->send(later.data, later.to, later.tag).wait();
      if (!is_followed) mutation_.is_void = true;
    }
  }

  std::uint64_t newest_group() const override { return real_->groups()->newest_group(); }
  int world_rank(int rank) const override { return real_->groups()->world_rank(rank); }
  std::unique_ptr<Communicator> open(const GroupPlace& place) override {
    return std::make_unique<MutatedCommunicator>(real_->groups()->open(place), mutation_);
  }

  std::list<Later> later_;                    // outlive their messages
  std::list<std::vector<std::byte>> unused_;  // received too late
  std::vector<Work> late_;
  std::unique_ptr<Communicator> real_;
  Mutation& mutation_;
};

}  // namespace zero::tests
