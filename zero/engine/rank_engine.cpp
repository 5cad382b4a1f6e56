#include "zero/engine/rank_engine.h"

#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

IoError with_rank(int rank, const std::vector<Unit>& units, const IoError& error) {
  if (error.unit() < 0) return error.within(fmt::format("rank {}", rank));
  return error.within(fmt::format("rank {}: unit {}", rank, units[static_cast<std::size_t>(error.unit())].name));
}

}  // namespace

RankEngine::RankEngine(Communicator& comm, std::vector<ParamSpec> specs, std::vector<Unit> units,
                       const AttachOptions& options, UnitObserver& observer, const EngineHost& host) try
    : parts_(comm, std::move(specs), units, options, observer, host),
      io_([this](const IoError& error) { return with_rank(parts_.comms.run.rank(), parts_.state.units(), error); }),
      update_times_(parts_),
      statistics_(parts_),
      state_mover_(parts_),
      step_(parts_, update_times_, state_mover_, statistics_),
      states_(parts_, update_times_, step_, io_),
      gradients_(parts_, step_, io_),
      served_(parts_, step_, io_) {
} catch (const IoError& error) {
  throw with_rank(comm.rank(), units, error);
}

RankEngine::~RankEngine() = default;

void RankEngine::settle() {
  if (step_.num_taken() > 0) return;
  io_.run([this] { state_mover_.settle(step_.num_updates()); });
}

GatheredUnit RankEngine::use(int unit, Use why) {
  io_.run([&] { bring(unit, why); });
  std::byte* const data = parts_.gatherer.data(unit);
  parts_.gatherer.uses().pin(unit, data);
  return {static_cast<UnitPins&>(*this), unit, data};
}

void RankEngine::begin_micro_batch(int number) {
  const int accumulate = parts_.options.accumulate;
  if (number < 0 || number >= accumulate)
    throw ConfigError("accumulate", fmt::format("{}", accumulate), fmt::format("micro-batch {} begins", number),
                      "number the micro-batches of a step from 0, and set accumulate to their number");
  parts_.passes.begin_micro_batch(number);
}

void RankEngine::bring(int unit, Use why) {
  const bool untraced = why == Use::kUntraced;
  if (why == Use::kForward) parts_.passes.begin_forward();
  update_times_.before_use(unit, untraced);
  parts_.updater.pump();
  parts_.gatherer.prefetches().pump();
  parts_.reducer.pump();
  if (untraced) {
    parts_.updater.finish();  // a user outside training may write to the unit
    const ExactGathers exact(parts_.unit_comms.coded());
    const PartsAside aside(parts_.unit_comms.coded() != nullptr ? &parts_.secondary : nullptr);
    statistics_.outside_training([&] { parts_.passes.use_untraced(unit); });
    return;
  }
  if (why == Use::kBackward) step_.begin_backward();
  parts_.passes.access(unit);
}

void RankEngine::mark_written(int unit) {
  const CodedCommunicator* const coded = parts_.unit_comms.coded();
  if (coded != nullptr && coded->gathered_coded(unit)) {
    throw ConfigError("comm.gather_wire", std::string(name_of(parts_.options.wire.gather)),
                      fmt::format("parameters of {} are written during a step that uses a coded copy of them",
                                  parts_.state.unit(unit).name),
                      "write parameters between steps, or leave this codec out");
  }
  io_.run([&] {
    parts_.updater.finish();  // the update still writes the used parameters
    parts_.gatherer.uses().mark_written(unit);
  });
}

void RankEngine::add_gradient(int param, const std::byte* gradient) {
  io_.run([&] {
    step_.begin_backward();
    parts_.reducer.add(param, gradient);
    parts_.passes.gradient_arrived(parts_.reducer.arrivals().unit_of(param));
  });
}

StepReport RankEngine::step(const StepRates& rates, const StepLimits& limits) {
  return io_.run([&] { return step_.take(rates, limits); });
}

StepSync RankEngine::agree_step(const StepRates& rates, const StepLimits& limits) {
  return io_.run([&] { return step_.agree(rates, limits); });
}

StepReport RankEngine::carry_out_step(const StepSync& agreed, const StepRates& rates) {
  return io_.run([&] { return step_.carry_out(agreed, rates); });
}

void RankEngine::finish(bool ends) {
  io_.run([&] {
    update_times_.finish(ends);
    if (ends) step_.finish_outer();
  });
}

EngineReport RankEngine::report() const {
  EngineReport report;
  statistics_.add_to(report);
  state_mover_.add_to(report);
  step_.add_to(report);
  return report;
}

void RankEngine::unpin(int unit) noexcept {
  io_.run_noexcept([&] { parts_.gatherer.uses().unpin(unit); });
}

}  // namespace zero
