// ThreadLink: a DeviceLink between threads. When its calls return, the messages have been received. It suits devices
// that show the host only the bytes of a running operation (RecordedDevice).
//
//   ThreadLink::Mail mail;
//   host.open_link = [&](Communicator& units, Device&) {
//     return std::make_unique<ThreadLink>(mail, units.rank(), units.world());
//   };
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "zero/comm/device_link.h"
#include "zero/comm/rank_sum.h"

namespace zero {

class ThreadLink final : public DeviceLink {
 public:
  struct Mail {
    std::mutex mutex;
    std::condition_variable came;
    std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages;  // key: sender and receiver
  };
  ThreadLink(Mail& mail, int rank, int world) : mail_(mail), rank_(rank), world_(world) {}

  State all_gather(void* stream, std::span<const std::byte> in, std::byte* out) override {
    std::vector<Sent> sent;
    std::vector<Received> received;
    for (int peer = 0; peer < world_; ++peer) {
      std::byte* const block = out + static_cast<std::size_t>(peer) * in.size();
      if (peer == rank_) {
        if (block != in.data()) std::memcpy(block, in.data(), in.size());
        continue;
      }
      sent.push_back({peer, in.data(), in.size()});
      received.push_back({peer, block, in.size()});
    }
    return exchange(stream, sent, received);
  }

  // Sums in rank order in fp32 and rounds once: the bits of ordered sums, if ordered sums round once.
  State reduce_scatter(void* stream, const std::byte* in, std::byte* out, std::size_t numel, Element element) override {
    const DType dtype = element == Element::kFloat32   ? DType::kFloat32
                        : element == Element::kFloat16 ? DType::kFloat16
                                                       : DType::kBFloat16;
    const std::size_t bytes = numel * size_of(dtype);
    std::vector<std::vector<std::byte>> blocks(static_cast<std::size_t>(world_), std::vector<std::byte>(bytes));
    std::vector<const std::byte*> parts;
    std::vector<Sent> sent;
    std::vector<Received> received;
    for (int peer = 0; peer < world_; ++peer) {
      const std::byte* const theirs = in + static_cast<std::size_t>(peer) * bytes;
      std::vector<std::byte>& block = blocks[static_cast<std::size_t>(peer)];
      parts.push_back(block.data());
      if (peer == rank_) {
        block.assign(theirs, theirs + bytes);
        continue;
      }
      sent.push_back({peer, theirs, bytes});
      received.push_back({peer, block.data(), bytes});
    }
    const State state = exchange(stream, sent, received);
    sum_ranks({.in = parts, .dtype = dtype, .out = out, .out_dtype = dtype, .numel = static_cast<std::int64_t>(numel)},
              nullptr);
    return state;
  }

  State exchange(void* /*stream*/, std::span<const Sent> sent, std::span<const Received> received) override {
    std::unique_lock lock(mail_.mutex);
    for (const Sent& message : sent)
      mail_.messages[{rank_, message.to}].emplace_back(message.data, message.data + message.bytes);
    mail_.came.notify_all();
    for (const Received& message : received) {
      auto& queue = mail_.messages[{message.from, rank_}];
      if (!mail_.came.wait_for(lock, std::chrono::seconds(60), [&] { return !queue.empty(); })) return State::kFailed;
      std::memcpy(message.data, queue.front().data(), message.bytes);
      queue.pop_front();
    }
    return State::kReady;
  }

  State state() override { return State::kReady; }
  const char* reason() const override { return "a message did not come"; }
  bool refused() const override { return false; }
  void abort() override {}

 private:
  Mail& mail_;
  int rank_, world_;
};

}  // namespace zero
