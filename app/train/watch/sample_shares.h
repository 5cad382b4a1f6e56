// SampleShares: how many samples of a micro-batch each rank takes: as many as every other, as many as it was told, or as
// many as it computes in the time that the others need for theirs.
//
//   SampleShares shares({.kind = ShareKind::kMeasured}, /*batch=*/8, world, rank);
//   shares.grid()                                      // which samples are this rank's
//   shares.weight()                                    // the factor of its mean loss
//   if (shares.learn(own_seconds, comm)) ...           // after each step: the next one has other shares
//
// All ranks together take batch x world samples, whoever takes them: the samples of a step do not depend on the shares.
// The engine averages over ranks, so that a rank's mean loss counts as its share of the samples when it is multiplied
// with share / batch: the gradient is the mean over all samples.
//
// Where shares are measured, every rank learns after each kWindow steps how long each computed itself, without the waits for
// others (steady_mean.h), fits the time of a sample and a fixed part (pace_fit.h), and takes the shares with the earliest
// end. All change after the same step. They stay where the slowest rank would gain less than kWorthwhile, or less than twice
// the error of the measurement, which falls from window to window. The first step of a process, and the first with
// other shares, teach nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/model/steady_mean.h"
#include "zero/plan/served/pace_fit.h"

#include "app/data/sample/sample_order.h"

namespace zero {

enum class ShareKind : std::uint8_t { kEqual, kGiven, kMeasured };

struct ShareOptions {
  ShareKind kind = ShareKind::kEqual;
  std::vector<std::int64_t> given;  // of each rank; they sum to batch x world
  std::int64_t most = 0;            // of measured shares: samples that one rank may take, >= batch; 0: any number
};

class SampleShares {
 public:
  static constexpr std::size_t kWindow = SteadyMean::kWindow;
  static constexpr double kWorthwhile = 0.02;  // of the slowest rank's seconds

  SampleShares(const ShareOptions& options, std::int64_t batch, int world, int rank);

  // Every rank takes as many, always.
  bool are_equal() const { return options_.kind == ShareKind::kEqual; }
  const std::vector<std::int64_t>& samples() const { return samples_; }
  BatchGrid grid() const { return shared_grid(samples_, rank_); }
  double weight() const;
  // After a step. Collective at the end of each window where shares are measured; else Local.
  bool learn(double own_seconds, Communicator& comm);
  // "6 + 2"
  std::string text() const;

 private:
  ShareOptions options_;
  std::int64_t batch_;
  int rank_;
  std::vector<std::int64_t> samples_;
  bool is_warm_ = false;
  SteadyMean own_;             // of this rank's steps
  std::vector<PaceFit> fits_;  // by rank, the same on all ranks
};

}  // namespace zero
