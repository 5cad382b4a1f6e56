// SampleShares: the number of samples of a micro-batch that each rank takes: equal, given, or measured.
//
//   SampleShares shares({.kind = ShareKind::kMeasured}, /*batch=*/8, world, rank);
//   shares.grid()                                      // the samples of this rank
//   shares.weight()                                    // the factor of its mean loss
//   if (shares.learn(own_seconds, comm)) ...           // after each step: the next step has other shares
//
// All ranks together take batch x world samples, so the samples of a step do not depend on the shares. The engine
// averages over ranks. A rank's mean loss is therefore multiplied by share / batch, and the gradient is the mean over
// all samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/model/steady_mean.h"
#include "zero/plan/served/pace_fit.h"

#include "app/data/sample/sample_order.h"
#include "app/train/tasks/step_options.h"

namespace zero {

class SampleShares {
 public:
  static constexpr std::size_t kPeriod = SteadyMean::kPeriod;
  static constexpr double kWorthwhile = 0.02;  // fraction of the slowest rank's seconds

  SampleShares(const ShareOptions& options, std::int64_t batch, int world, int rank);

  // True if every rank always takes the same number of samples.
  bool are_equal() const { return options_.kind == ShareKind::kEqual; }
  const std::vector<std::int64_t>& samples() const { return samples_; }
  BatchGrid grid() const { return shared_grid(samples_, rank_); }
  double weight() const;
  // Call it after each step. Returns true if the shares changed. If shares are measured, it is Collective at the end of
  // each period, otherwise Local.
  //
  // After each kPeriod steps every rank reports how long it computed, without waiting for others (steady_mean.h).
  // SampleShares fits the time of a sample and a fixed time (pace_fit.h), and chooses the shares with which the step
  // ends earliest. All ranks change after the same step. Shares stay if the slowest rank would gain less than
  // kWorthwhile, or less than twice the error of the measurement. This error falls from period to period. The first
  // step of a process, and the first step with other shares, are not measured.
  bool learn(double own_seconds, Communicator& comm);
  // Returns the shares, for example "6 + 2".
  std::string text() const;

 private:
  ShareOptions options_;
  std::int64_t batch_;
  int rank_;
  std::vector<std::int64_t> samples_;
  bool is_warm_ = false;
  SteadyMean own_;             // seconds of this rank's steps
  std::vector<PaceFit> fits_;  // by rank, the same on all ranks
};

}  // namespace zero
