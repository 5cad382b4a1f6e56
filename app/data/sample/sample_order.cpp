#include "app/data/sample/sample_order.h"

#include <array>
#include <bit>
#include <numeric>

#include "zero/base/error/check.h"

namespace zero {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;

constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns the g-th output of the SplitMix64 generator whose state is a hash of the seed. So neighbouring seeds do not
// have overlapping sequences.
constexpr std::uint64_t draw(std::uint64_t seed, std::uint64_t g) {
  return mix(mix(seed + kGolden) + (g + 1) * kGolden);
}

// Computes a permutation of [0, 4^half_bits).
class Feistel {
 public:
  Feistel(std::uint64_t key, int half_bits) : half_bits_(half_bits), mask_((std::uint64_t{1} << half_bits) - 1) {
    for (std::size_t round = 0; round < round_keys_.size(); ++round) round_keys_[round] = draw(key, round);
  }

  std::uint64_t operator()(std::uint64_t value) const {
    std::uint64_t left = value >> half_bits_, right = value & mask_;
    for (const std::uint64_t key : round_keys_) {
      const std::uint64_t next = left ^ (mix(right + key) & mask_);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

 private:
  int half_bits_;
  std::uint64_t mask_;
  std::array<std::uint64_t, 6> round_keys_;
};

}  // namespace

BatchGrid even_grid(std::int64_t batch, int world, int rank) {
  ZERO_CHECK(batch > 0 && world > 0 && 0 <= rank && rank < world, "batch {}, rank {} of {}", batch, rank, world);
  return {.batch = batch, .before = batch * rank, .together = batch * world};
}

BatchGrid shared_grid(std::span<const std::int64_t> shares, int rank) {
  ZERO_CHECK(0 <= rank && static_cast<std::size_t>(rank) < shares.size(), "rank {} of {}", rank, shares.size());
  const auto mine = shares.begin() + rank;
  return {.batch = *mine,
          .before = std::accumulate(shares.begin(), mine, std::int64_t{0}),
          .together = std::accumulate(shares.begin(), shares.end(), std::int64_t{0})};
}

std::int64_t global_sample_index(const BatchGrid& grid, std::int64_t micro_batch, std::int64_t row) {
  return micro_batch * grid.together + grid.before + row;
}

std::int64_t shuffled_offset(std::uint64_t seed, std::int64_t g, std::int64_t count) {
  ZERO_CHECK(count > 0 && g >= 0);
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(
      static_cast<Wide>(draw(seed, static_cast<std::uint64_t>(g))) * static_cast<std::uint64_t>(count) >> 64);
}

std::int64_t shuffled_row(std::uint64_t seed, std::int64_t g, std::int64_t count) {
  ZERO_CHECK(count > 0 && g >= 0);
  const auto rows = static_cast<std::uint64_t>(count);
  const std::uint64_t epoch = static_cast<std::uint64_t>(g) / rows;
  const Feistel permute(draw(seed, epoch), (std::bit_width(rows - 1) + 1) / 2);
  std::uint64_t row = static_cast<std::uint64_t>(g) % rows;
  do row = permute(row);
  while (row >= rows);
  return static_cast<std::int64_t>(row);
}

}  // namespace zero
