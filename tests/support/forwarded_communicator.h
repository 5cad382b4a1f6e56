// ForwardedCommunicator: passes every call to another communicator. Tests derive from it and override some calls.
#pragma once

#include <memory>
#include <utility>

#include "zero/comm/communicator.h"

namespace zero {

class ForwardedCommunicator : public Communicator {
 public:
  explicit ForwardedCommunicator(Communicator& real) : real_(real) {}
  explicit ForwardedCommunicator(std::unique_ptr<Communicator> real) : owned_(std::move(real)), real_(*owned_) {}

  int rank() const override { return real_.rank(); }
  int world() const override { return real_.world(); }
  std::string_view transport() const override { return real_.transport(); }
  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    return real_.all_gather(in, out, tag);
  }
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    return real_.all_to_all(in, out, tag);
  }
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override { return real_.broadcast(data, root, tag); }
  Work send(std::span<const std::byte> data, int to, CommTag tag) override { return real_.send(data, to, tag); }
  Work receive(std::span<std::byte> data, int from, CommTag tag) override { return real_.receive(data, from, tag); }
  Work barrier(CommTag tag) override { return real_.barrier(tag); }
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override { return real_.reduce_scatter(request, tag); }
  Allocation allocate(std::size_t bytes, Written written) override { return real_.allocate(bytes, written); }
  void drain() override { real_.drain(); }
  Traffic traffic() const override { return real_.traffic(); }
  double waited_seconds() const override { return real_.waited_seconds(); }
  std::chrono::milliseconds timeout() const override { return real_.timeout(); }

 private:
  std::unique_ptr<Communicator> owned_;  // null: the other communicator has another owner
  Communicator& real_;
};

}  // namespace zero
