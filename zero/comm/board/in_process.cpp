#include "zero/comm/board/in_process.h"

#include <bit>
#include <map>
#include <mutex>
#include <new>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"
#include "zero/comm/board/board_communicator.h"

namespace zero {
namespace {

Allocation allocate_pages(std::size_t bytes) {
  Allocation pages = map_private(bytes);
  if (!pages) throw std::bad_alloc();
  return pages;
}

// State that all ranks share; the last rank frees it.
struct Shared {
  Allocation board;
  std::mutex mutex;
  std::vector<Allocation> kept;

  // Board of a group. It is kept here until each rank of the group has taken its reference.
  struct GroupBoard {
    std::shared_ptr<Allocation> memory;
    int left_to_take = 0;
  };
  std::map<std::pair<int, std::uint64_t>, GroupBoard> group_boards;  // by lowest rank and number
};

// Memory of threads, which share all addresses.
class ThreadMemory final : public PeerMemory {
 public:
  explicit ThreadMemory(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::string_view transport() const override { return "in_process"; }
  std::byte* board() override { return shared_->board.data(); }
  Allocation share_board(RankSet members, std::uint64_t number, std::size_t bytes) override {
    const std::scoped_lock lock(shared_->mutex);
    const auto [found, created] = shared_->group_boards.try_emplace({std::countr_zero(members), number});
    Shared::GroupBoard& board = found->second;
    if (created) {
      board = {.memory = std::make_shared<Allocation>(allocate_pages(bytes)), .left_to_take = std::popcount(members)};
    }
    const std::shared_ptr<Allocation> memory = board.memory;
    if (--board.left_to_take == 0) shared_->group_boards.erase(found);
    return {memory->data(), bytes, [memory](std::byte*, std::size_t) {}};
  }
  bool readable_in_place(std::span<const std::byte>) const override { return true; }
  Source share(std::span<const std::byte> in) override {
    return {.kind = Source::Kind::kMemory, .offset = reinterpret_cast<std::uintptr_t>(in.data())};
  }
  void reclaim(const Source&) override {}
  const std::byte* find(int, const Source& source) override {
    return reinterpret_cast<const std::byte*>(source.offset);
  }
  Allocation allocate(std::size_t bytes, Written /*written*/) override { return allocate_pages(bytes); }
  void keep(Allocation memory) override {
    const std::scoped_lock lock(shared_->mutex);
    shared_->kept.push_back(std::move(memory));
  }
  RankSet dead() override { return 0; }
  std::string describe(int) const override { return ""; }

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_in_process(int world, std::chrono::milliseconds timeout) {
  if (world < 1 || world > kMaxBoardRanks) {
    throw ConfigError("comm.transport", "in_process", fmt::format("cannot hold {} ranks", world),
                      fmt::format("use 1 to {} ranks", kMaxBoardRanks));
  }
  auto shared = std::make_shared<Shared>();
  shared->board = allocate_pages(Board::bytes(world));
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(std::make_unique<BoardCommunicator>(std::make_unique<ThreadMemory>(shared), rank, world, timeout));
  }
  return ranks;
}

}  // namespace zero
