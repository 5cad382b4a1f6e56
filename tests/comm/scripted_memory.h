// For tests of one rank's side of a board: a board without other ranks, and peers that a test scripts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zero/comm/board/board.h"
#include "zero/comm/board/peer_memory.h"

namespace zero::tests {

// The memory of a board: zeros that begin on a page.
class BoardMemory {
 public:
  explicit BoardMemory(int world) : words_(Board::bytes(world) / 8 + 1024) {}
  std::byte* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(words_.data());
    return reinterpret_cast<std::byte*>((address + 4095) / 4096 * 4096);
  }

 private:
  std::vector<std::uint64_t> words_;
};

class ScriptedMemory final : public PeerMemory {
 public:
  std::string_view transport() const override { return "scripted"; }
  std::byte* board() override { return nullptr; }
  Allocation share_board(RankSet, std::uint64_t, std::size_t) override { return {}; }
  bool readable_in_place(std::span<const std::byte>) const override { return in_place; }
  Source share(std::span<const std::byte>) override { return {.kind = Source::Kind::kMemory, .number = ++num_shared}; }
  void reclaim(const Source& source) override { reclaimed.push_back(source.number); }
  const std::byte* find(int, const Source&) override { return nullptr; }
  Allocation allocate(std::size_t bytes, Written) override {
    return {new std::byte[bytes], bytes, [this](std::byte* data, std::size_t) {
              delete[] data;
              ++num_released;
            }};
  }
  void keep(Allocation memory) override { kept.push_back(std::move(memory)); }
  RankSet dead() override {
    if (when_asked) when_asked();
    return dead_ranks;
  }
  std::string describe(int rank) const override { return "state of " + std::to_string(rank); }
  bool is_stopped(int rank) const override { return (stopped_ranks & only(rank)) != 0; }

  bool in_place = true;
  std::uint64_t num_shared = 0;          // share() numbers its sources
  std::vector<std::uint64_t> reclaimed;  // numbers of sources
  int num_released = 0;                  // allocations
  std::vector<Allocation> kept;
  RankSet dead_ranks = 0;
  RankSet stopped_ranks = 0;
  std::function<void()> when_asked;  // called by dead()
};

}  // namespace zero::tests
