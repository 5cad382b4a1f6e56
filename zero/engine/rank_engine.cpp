#include "zero/engine/rank_engine.h"

#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/fatal_io.h"
#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_statistics.h"
#include "zero/engine/engine_step.h"
#include "zero/engine/state_mover.h"
#include "zero/engine/update_times.h"

namespace zero {
namespace {

IoError with_rank(int rank, const std::vector<Unit>& units, const IoError& error) {
  if (error.unit() < 0) return error.within(fmt::format("rank {}", rank));
  return error.within(fmt::format("rank {}: unit {}", rank, units[static_cast<std::size_t>(error.unit())].name));
}

}  // namespace

struct RankEngine::Inside {
  Inside(Communicator& comm, std::vector<ParamSpec> specs, const std::vector<Unit>& units, const AttachOptions& options,
         UnitObserver& observer, const EngineHost& host)
      : parts(comm, std::move(specs), units, options, observer, host),
        io([this](const IoError& error) { return with_rank(parts.comms.run.rank(), parts.state.units(), error); }),
        update_times(parts),
        statistics(parts),
        state_mover(parts),
        step(parts, update_times, state_mover, statistics),
        states(parts, update_times, step, io),
        gradients(parts, step, io),
        half_steps(parts, step, io) {}

  EngineParts parts;
  FatalIo io;
  UpdateTimes update_times;
  EngineStatistics statistics;
  StateMover state_mover;
  EngineStep step;
  StateAccess states;
  GradientAccess gradients;
  HalfSteps half_steps;
};

RankEngine::RankEngine(Communicator& comm, std::vector<ParamSpec> specs, std::vector<Unit> units,
                       const AttachOptions& options, UnitObserver& observer, const EngineHost& host) try
    : in_(std::make_unique<Inside>(comm, std::move(specs), units, options, observer, host)) {
} catch (const IoError& error) {
  throw with_rank(comm.rank(), units, error);
}

RankEngine::~RankEngine() = default;

void RankEngine::settle() {
  if (in_->step.num_taken() > 0) return;
  in_->io.run([this] { in_->state_mover.settle(in_->step.num_updates()); });
}

GatheredUnit RankEngine::use(int unit, Use why) {
  in_->io.run([&] { bring(unit, why); });
  Gatherer& gatherer = in_->parts.gatherer;
  std::byte* const data = gatherer.data(unit);
  gatherer.uses().pin(unit, data);
  return {static_cast<UnitPins&>(*this), unit, data};
}

void RankEngine::begin_micro_batch(int number) {
  const int accumulate = in_->parts.options.accumulate;
  if (number < 0 || number >= accumulate)
    throw ConfigError("accumulate", fmt::format("{}", accumulate), fmt::format("micro-batch {} begins", number),
                      "number the micro-batches of a step from 0, and set accumulate to their number");
  in_->parts.passes.begin_micro_batch(number);
}

void RankEngine::begin_backward() {
  in_->io.run([&] { in_->step.begin_backward(); });
}

void RankEngine::bring(int unit, Use why) {
  EngineParts& parts = in_->parts;
  const bool untraced = why == Use::kUntraced;
  if (why == Use::kForward) parts.passes.begin_forward();
  in_->update_times.before_use(unit, untraced);
  parts.updater.pump();
  parts.gatherer.prefetches().pump();
  parts.reducer.pump();
  if (untraced) {
    parts.updater.finish();  // a user outside training may write to the unit
    const ExactGathers exact(parts.unit_comms.coded());
    const PartsAside aside(parts.unit_comms.coded() != nullptr ? &parts.secondary : nullptr);
    in_->statistics.outside_training([&] { parts.passes.use_untraced(unit); });
    return;
  }
  if (why == Use::kBackward) in_->step.begin_backward();
  parts.passes.access(unit);
}

void RankEngine::mark_written(int unit) {
  EngineParts& parts = in_->parts;
  const CodedCommunicator* const coded = parts.unit_comms.coded();
  if (coded != nullptr && coded->gathered_coded(unit)) {
    throw ConfigError("comm.gather_wire", std::string(name_of(parts.options.wire.gather)),
                      fmt::format("parameters of {} are written during a step that uses a coded copy of them",
                                  parts.state.unit(unit).name),
                      "write parameters between steps, or leave this codec out");
  }
  in_->io.run([&] {
    parts.updater.finish();  // the update still writes the used parameters
    parts.gatherer.uses().mark_written(unit);
  });
}

void RankEngine::add_gradient(int param, const std::byte* gradient) {
  EngineParts& parts = in_->parts;
  in_->io.run([&] {
    in_->step.begin_backward();
    parts.reducer.add(param, gradient);
    parts.passes.gradient_arrived(parts.reducer.arrivals().unit_of(param));
  });
}

StepReport RankEngine::step(const StepRates& rates, const StepLimits& limits) {
  return in_->io.run([&] { return in_->step.take(rates, limits); });
}

StepSync RankEngine::agree_step(const StepRates& rates, const StepLimits& limits) {
  return in_->io.run([&] { return in_->step.agree(rates, limits); });
}

StepReport RankEngine::carry_out_step(const StepSync& agreed, const StepRates& rates) {
  return in_->io.run([&] { return in_->step.carry_out(agreed, rates); });
}

std::int64_t RankEngine::offload_states(const MovedStates& which) {
  in_->states.pause("offload_states", "called");
  return in_->io.run([&] { return in_->state_mover.offload(which, in_->step.num_updates()); });
}

std::int64_t RankEngine::reload_states() {
  in_->states.pause("reload_states", "called");
  return in_->io.run([&] { return in_->state_mover.reload(in_->step.num_updates()); });
}

void RankEngine::finish(bool ends) {
  in_->io.run([&] {
    in_->update_times.finish(ends);
    if (ends) in_->step.finish_outer();
  });
}

EngineReport RankEngine::report() const {
  EngineReport report;
  in_->statistics.add_to(report);
  in_->state_mover.add_to(report);
  in_->step.add_to(report);
  return report;
}

double RankEngine::scale_loss() {
  return in_->step.scale_loss();
}

double RankEngine::loss_scale() const {
  return in_->step.loss_scale();
}

StateAccess& RankEngine::states() {
  return in_->states;
}

const StateAccess& RankEngine::states() const {
  return in_->states;
}

GradientAccess& RankEngine::gradients() {
  return in_->gradients;
}

HalfSteps& RankEngine::half_steps() {
  return in_->half_steps;
}

ParameterWrites& RankEngine::writes() {
  return in_->parts.writes;
}

WorkSeconds RankEngine::take_work_seconds() {
  return in_->statistics.take_work_seconds();
}

bool RankEngine::in_forward() const {
  return in_->parts.passes.in_forward();
}

const Schedule& RankEngine::schedule() const {
  return in_->parts.executor.schedule();
}

const std::vector<ParamSpec>& RankEngine::specs() const {
  return in_->parts.specs;
}

const std::vector<Unit>& RankEngine::units() const {
  return in_->parts.state.units();
}

EngineResources RankEngine::resources() {
  const EngineParts& parts = in_->parts;
  const EngineComms& comms = parts.comms;
  return {comms.run,     comms.copy,        comms.mesh,       in_->parts.ledger,
          parts.options, parts.read_memory, parts.link.get(), parts.local_world};
}

void RankEngine::unpin(int unit) noexcept {
  in_->io.run_noexcept([&] { in_->parts.gatherer.uses().unpin(unit); });
}

}  // namespace zero
