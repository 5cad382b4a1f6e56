// StopsWithin: a worker's communicator that stops at a chosen moment in the middle of a push, or of the weights that it
// reads.
//
//   StopsWithin comm(real, Within::kWeights, 1, [&] { beside.stand(); });
//   comm.arm();                            // from here on: stops before it asks for the second part of the weights
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "zero/comm/board/arrivals.h"

#include "tests/support/forwarded_communicator.h"

namespace zero {

enum class Within : std::uint8_t { kWeights, kPush };

inline std::string_view name_of(Within within) {
  return within == Within::kWeights ? "within weights" : "within a push";
}

class StopsWithin final : public ForwardedCommunicator {
 public:
  // `part` is the number of parts before the stop. It counts the parts of all servers.
  StopsWithin(Communicator& real, Within within, int part, std::function<void()> stand)
      : ForwardedCommunicator(real), real_(real), within_(within), part_(part), stand_(std::move(stand)) {}

  // It stops at most once.
  void arm() { armed_ = !has_stood_; }

  Work send(std::span<const std::byte> data, int to, CommTag tag) override {
    if (within_ == Within::kPush && tag.unit >= 0) pass();
    return real_.send(data, to, tag);
  }
  Work receive(std::span<std::byte> data, int from, CommTag tag) override {
    if (within_ == Within::kWeights && tag.unit >= 0) pass();
    return real_.receive(data, from, tag);
  }
  GroupOpener* groups() override { return real_.groups(); }
  Arrivals* arrivals() override { return real_.arrivals(); }
  void note_step(std::int64_t steps) override { real_.note_step(steps); }

 private:
  void pass() {
    if (!armed_ || part_-- > 0) return;
    armed_ = false;
    has_stood_ = true;
    stand_();
  }

  Communicator& real_;
  Within within_;
  int part_;
  std::function<void()> stand_;
  bool armed_ = false, has_stood_ = false;
};

}  // namespace zero
