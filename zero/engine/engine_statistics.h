// EngineStatistics: counts the bytes, memory and seconds of an engine's steps.
//
//   statistics.outside_training([&] { executor.use_untraced(u); });   // belongs to no step
//   statistics.before_update();                                      // in each step: memory is fullest
//   statistics.step_ends();
//   statistics.outer_step({.begins = true, .ends = true}, [&] { merge_units(); });   // if copies train apart
//   statistics.add_to(report);
//
// It counts sent bytes, held memory and seconds by kind of work, and predicts the seconds of a step. No step depends on
// these numbers. Local.
#pragma once

#include <array>

#include "zero/engine/engine_parts.h"
#include "zero/engine/options/pass_times.h"
#include "zero/engine/options/step_report.h"

namespace zero {

class EngineStatistics {
 public:
  explicit EngineStatistics(EngineParts& parts);
  EngineStatistics(const EngineStatistics&) = delete;
  EngineStatistics& operator=(const EngineStatistics&) = delete;
  ~EngineStatistics() { parts_.executor.set_pass_times(nullptr); }

  // Counts the exchanges of `body` for no step.
  template <typename Body>
  void outside_training(Body body) {
    const Exchanged before = exchanged();
    body();
    untraced_ += exchanged() - before;
  }
  // Counts the exchanges and transfers of `body` for an outer step. An outer step may have several parts: `begins`
  // marks the first, `ends` the last. `fragment` -1: all units.
  struct OuterPart {
    int fragment = -1;
    bool begins = false, ends = false;
  };
  template <typename Body>
  void outer_step(const OuterPart& part, Body body) {
    const Exchanged before = exchanged();
    body();
    const Exchanged of_it = exchanged() - before;
    if (part.begins) of_open_step_ = {};
    of_open_step_ += of_it;
    of_outer_steps_ += of_it;
    untraced_ += of_it;
    count_tiers();
    if (!part.ends) return;
    of_outer_step_ = of_open_step_;
    fragment_ = part.fragment;
    ++num_outer_steps_;
    merged_in_last_step_ = true;
  }
  void before_update();
  void step_ends();
  // Forgets the passes since the last step, which were dropped with their gradients.
  void step_restarts();

  // Returns the profile of the last step: the computation of its passes, and the gathers of its schedule.
  StepProfile profile() const;
  // Returns the seconds since the last call.
  WorkSeconds take_work_seconds();
  void add_to(EngineReport& report) const;

 private:
  // Exchanges between ranks, so far or in a step.
  struct Exchanged {
    std::int64_t sent_bytes = 0, received_bytes = 0, sent_between_copies = 0, sent_within_secondary = 0;
    double seconds = 0;  // for gathers and reductions, without their waits for disk and link
    SentByCodec by_codec{};
    Exchanged operator-(const Exchanged& other) const;
    Exchanged& operator+=(const Exchanged& other);
  };
  double exchange_seconds() const;   // by the host's clock
  double exchanged_in_step() const;  // seconds of exchanges between ranks in the last step
  Exchanged exchanged() const;
  SentByCodec sent_by_codec(std::int64_t sent_bytes) const;
  void count_tiers();
  WorkSeconds work_seconds() const;
  PredictedStep predicted() const;
  void add_formulas(EngineReport& report) const;
  OuterReport outer_report() const;
  SecondaryReport secondary_report(const ScheduleCost& planned) const;

  EngineParts& parts_;
  const std::unique_ptr<PassTimes> times_;
  PerTier<MemoryCount> memory_at_update_;
  Exchanged at_last_step_, untraced_, in_step_;
  Exchanged of_open_step_, of_outer_step_;  // of the running outer step, and of the last finished one
  Exchanged of_outer_steps_;                // of all outer steps so far
  int fragment_ = -1;                       // the last outer step's
  std::int64_t num_outer_steps_ = 0;
  bool merged_in_last_step_ = false;
  DiskTraffic disk_at_last_step_, disk_of_step_;  // at the last count; of the last step
  LinkTraffic link_at_last_step_, link_of_step_;
  WorkSeconds taken_;
};

}  // namespace zero
