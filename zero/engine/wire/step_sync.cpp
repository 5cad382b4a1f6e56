#include "zero/engine/wire/step_sync.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

struct Header {
  std::uint64_t trace_hash;
  std::int64_t num_non_finite;
  std::int64_t first_bad_param;
  std::int64_t wanted_bytes;
  std::int64_t has_loss;
  std::int64_t has_leaf_losses;
  double loss;
  double max_loss;
  double max_grad_norm;
  double lr;
  std::uint64_t rates_hash;
  std::int64_t passes;
  std::uint64_t write_hash;
  ExactSum sum_squares;
};
static_assert(std::is_trivially_copyable_v<Header>);

// Losses of the leaves, by rank and micro-batch.
class LeafLosses {
 public:
  explicit LeafLosses(const Leaves* leaves) : leaves_(leaves) {
    if (leaves != nullptr) of_leaves_.resize(static_cast<std::size_t>(leaves->count()));
  }
  std::size_t bytes() const { return leaves_ == nullptr ? 0 : passes() * sizeof(double); }
  // Writes a rank's own losses.
  void put(std::byte* to, const std::vector<double>& losses) const {
    if (leaves_ == nullptr || losses.empty()) return;
    ZERO_CHECK(losses.size() == passes(), "{} losses of {} micro-batches", losses.size(), passes());
    std::memcpy(to, losses.data(), bytes());
  }
  void take(std::size_t rank, const std::byte* from, bool given) {
    if (leaves_ == nullptr || !given) return;
    ++num_given_;
    for (std::size_t micro = 0; micro < passes(); ++micro) {
      const int leaf = leaves_->leaf(static_cast<int>(rank), static_cast<int>(micro));
      if (leaf >= 0)
        std::memcpy(&of_leaves_[static_cast<std::size_t>(leaf)], from + micro * sizeof(double), sizeof(double));
    }
  }
  std::optional<double> mean(std::size_t world) const {
    if (leaves_ == nullptr || num_given_ < world) return std::nullopt;
    return tree_sum(of_leaves_) / static_cast<double>(of_leaves_.size());
  }

 private:
  std::size_t passes() const { return static_cast<std::size_t>(leaves_->passes()); }

  const Leaves* leaves_;
  std::vector<double> of_leaves_;
  std::size_t num_given_ = 0;  // ranks
};

}  // namespace

StepSync exchange(Communicator& comm, const RankStep& sent, int shard, const Leaves* leaves) {
  const std::size_t num_params = sent.present.size();
  const std::size_t present_at = sizeof(Header);
  const std::size_t losses_at = (present_at + (num_params + 7) / 8 + 7) / 8 * 8;
  LeafLosses leaf_losses(leaves);
  const std::size_t bytes = losses_at + leaf_losses.bytes();
  const auto world = static_cast<std::size_t>(comm.world());

  std::vector<std::byte> all(world * bytes);
  std::byte* mine = all.data() + static_cast<std::size_t>(comm.rank()) * bytes;
  const Header header{.trace_hash = sent.trace_hash,
                      .num_non_finite = sent.num_non_finite,
                      .first_bad_param = sent.first_bad_param,
                      .wanted_bytes = sent.wanted_bytes,
                      .has_loss = sent.loss ? 1 : 0,
                      .has_leaf_losses = sent.leaf_losses.empty() ? 0 : 1,
                      .loss = sent.loss.value_or(0),
                      .max_loss = sent.max_loss,
                      .max_grad_norm = sent.max_grad_norm,
                      .lr = sent.lr,
                      .rates_hash = sent.rates_hash,
                      .passes = sent.passes,
                      .write_hash = sent.write_hash,
                      .sum_squares = sent.sum_squares};
  std::memcpy(mine, &header, sizeof header);
  for (std::size_t param = 0; param < num_params; ++param) {
    if (sent.present[param]) mine[present_at + param / 8] |= std::byte{1} << (param % 8);
  }
  leaf_losses.put(mine + losses_at, sent.leaf_losses);
  all_gather(comm, {mine, bytes}, all, {.control = true});

  StepSync sync;
  sync.present.assign(num_params, false);
  Header first;
  std::memcpy(&first, all.data(), sizeof first);
  sync.wanted_bytes = first.wanted_bytes;
  sync.max_loss = first.max_loss;
  sync.max_grad_norm = first.max_grad_norm;
  const std::size_t ranks_of_copy = shard == 0 ? world : static_cast<std::size_t>(shard);
  std::vector<ExactSum> sums(world / ranks_of_copy);
  double losses = 0;
  std::size_t num_losses = 0;
  for (std::size_t rank = 0; rank < world; ++rank) {
    const std::byte* theirs = all.data() + rank * bytes;
    Header head;
    std::memcpy(&head, theirs, sizeof head);
    sums[rank / ranks_of_copy].add(head.sum_squares);
    sync.num_non_finite += head.num_non_finite;
    sync.wanted_bytes = std::max(sync.wanted_bytes, head.wanted_bytes);
    sync.write_hashes.push_back(head.write_hash);
    losses += head.loss;
    num_losses += static_cast<std::size_t>(head.has_loss);
    leaf_losses.take(rank, theirs + losses_at, head.has_leaf_losses == 1);
    const auto bad = static_cast<int>(head.first_bad_param);
    if (bad >= 0 && (sync.first_bad_param < 0 || bad < sync.first_bad_param)) sync.first_bad_param = bad;
    if (sync.mismatched_rank < 0 && head.trace_hash != first.trace_hash) sync.mismatched_rank = static_cast<int>(rank);
    if (!sync.other_rate && head.lr != first.lr) sync.other_rate = {static_cast<int>(rank), head.lr, first.lr};
    if (sync.other_rates_rank < 0 && head.rates_hash != first.rates_hash)
      sync.other_rates_rank = static_cast<int>(rank);
    if (!sync.other_passes && head.passes != first.passes)
      sync.other_passes = {static_cast<int>(rank), static_cast<int>(head.passes), static_cast<int>(first.passes)};
    for (std::size_t param = 0; param < num_params; ++param) {
      if ((theirs[present_at + param / 8] >> (param % 8) & std::byte{1}) != std::byte{0}) sync.present[param] = true;
    }
  }
  if (num_losses == world) sync.loss = losses / static_cast<double>(world);
  if (const std::optional<double> mean = leaf_losses.mean(world)) sync.loss = mean;
  for (const ExactSum& sum : sums) sync.sum_squares.push_back(sum.value());
  sync.exact_squares = std::move(sums);
  return sync;
}

void add_part(StepSync& verdict, const StepSync& other) {
  ZERO_CHECK(verdict.exact_squares.size() == other.exact_squares.size(), "{} copies and {}",
             verdict.exact_squares.size(), other.exact_squares.size());
  for (std::size_t copy = 0; copy < verdict.exact_squares.size(); ++copy) {
    verdict.exact_squares[copy].add(other.exact_squares[copy]);
    verdict.sum_squares[copy] = verdict.exact_squares[copy].value();
  }
  verdict.num_non_finite += other.num_non_finite;
}

}  // namespace zero
