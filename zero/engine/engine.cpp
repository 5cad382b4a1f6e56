#include "zero/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "zero/base/check.h"
#include "zero/base/log.h"
#include "zero/base/machine.h"
#include "zero/comm/collectives.h"
#include "zero/plan/estimate.h"

namespace zero {
namespace {

GatherBudget agreed_budget(Communicator& comm, const std::vector<Unit>& units, const EngineOptions& options,
                           int num_moments) {
  const Placement placement = place(options.stage, options.reduce, options.accumulate);
  // A fifth of what is free is left to activations and to others.
  const std::int64_t free_bytes = available_memory() / std::max(options.local_world, 1) / 5 * 4;
  const GatherBudget mine =
      gather_budget(options.device_memory, units, comm.world(), placement, num_moments, options.stage, free_bytes);
  return {all_reduce_min(comm, mine.capacity_bytes)};
}

EngineOptions checked(EngineOptions options) {
  if (!std::isfinite(options.clip) || options.clip < 0) {
    throw ConfigError("train.clip", fmt::format("{}", options.clip), "a norm is a finite number >= 0",
                      "0 turns clipping off");
  }
  if (options.threads < 1)
    throw ConfigError("run.threads", fmt::format("{}", options.threads), "a rank needs a thread",
                      "set it to 1 or more");
  return options;
}

}  // namespace

Engine::Engine(Communicator& comm, std::vector<ParamSpec> specs, std::vector<Unit> units, const EngineOptions& options,
               UnitObserver& observer)
    : comm_(comm),
      specs_(std::move(specs)),
      options_(checked(options)),
      rule_(make_update_rule(options.optimizer)),
      budget_(agreed_budget(comm, units, options, rule_->num_moments())),
      state_(units, place(options.stage, options.reduce, options.accumulate), rule_->num_moments(), comm, ledger_),
      gatherer_(state_, comm, ledger_, observer),
      reducer_(state_, specs_.size(), budget_.strict(), comm, ledger_),
      updater_(state_, *rule_, specs_, options_),
      executor_(state_, budget_, gatherer_, reducer_),
      at_last_step_(comm.traffic()) {
  // One set of blocks for what is gathered and what is reduced: at the end of the backward pass, when memory is
  // scarcest, the largest block that a gather needed serves a gradient.
  if (budget_.strict()) gatherer_.borrow_blocks(reducer_.blocks());
}

Engine::~Engine() = default;

GatheredUnit Engine::use(int unit, Use why) {
  rethrow_stored();
  if (why == Use::kUntraced) {
    const Traffic before = comm_.traffic();
    executor_.use_untraced(unit);
    untraced_.sent_bytes += comm_.traffic().sent_bytes - before.sent_bytes;
    untraced_.received_bytes += comm_.traffic().received_bytes - before.received_bytes;
  } else {
    if (why == Use::kForward) executor_.end_backward();
    if (why == Use::kBackward) executor_.begin_backward();
    executor_.touch(unit);
  }
  gatherer_.pin(unit);
  return {static_cast<UnitPins&>(*this), unit};
}

void Engine::add_gradient(int param, const std::byte* gradient) {
  rethrow_stored();
  executor_.begin_backward();
  reducer_.add(param, gradient);
  executor_.gradient_arrived(reducer_.unit_of(param));
}

void Engine::end_micro_batch() {
  executor_.end_backward();
}

StepReport Engine::step(double lr) {
  rethrow_stored();
  end_micro_batch();
  const int passes = executor_.finished_backwards();
  if (options_.accumulate > 1 && passes != options_.accumulate) {
    throw ConfigError("accumulate", fmt::format("{}", options_.accumulate),
                      fmt::format("this step had {} backward passes", passes),
                      "run as many as attach() was told, all but the last inside an accumulate() scope");
  }
  if (!gatherer_.pinned().empty())
    throw ConfigError("step", "", "called while parameters are gathered", "end the gathered() scope first");
  executor_.event({EventKind::kStep, -1, {}});
  gatherer_.finish();
  reducer_.finish();
  const Agreement agreed = exchange_findings();
  memory_at_update_ = ledger_.held(Tier::kDevice);

  const double norm = std::sqrt(agreed.sum_squares) / comm_.world();
  const double clip = options_.clip > 0 ? std::min(1.0, options_.clip / (norm + 1e-6)) : 1.0;
  StepReport report{.grad_norm = norm, .skipped = agreed.num_non_finite > 0};
  if (!report.skipped) {
    updater_.begin_step(agreed.present);
    for (const Move& move : executor_.schedule().step) apply(move, clip / comm_.world(), lr);
    ++num_steps_;
    skipped_in_a_row_ = 0;
  } else {
    report.culprit = agreed.first_bad_param >= 0 ? specs_[static_cast<std::size_t>(agreed.first_bad_param)].name : "";
    ++num_skipped_;
    ++skipped_in_a_row_;
    if (comm_.rank() == 0)
      ZERO_LOG(warn, "a step is skipped: the gradient of {} is not finite ({} in a row)", report.culprit,
               skipped_in_a_row_);
  }
  report.step = num_steps_;
  reducer_.clear();
  num_departed_ += executor_.departed() ? 1 : 0;
  executor_.close_step(agreed.departed_rank < 0);

  const Traffic now = comm_.traffic();
  step_traffic_.sent_bytes = now.sent_bytes - at_last_step_.sent_bytes - untraced_.sent_bytes;
  step_traffic_.received_bytes = now.received_bytes - at_last_step_.received_bytes - untraced_.received_bytes;
  at_last_step_ = now;
  untraced_ = {};
  if (report.skipped && skipped_in_a_row_ >= options_.max_skipped_steps) {
    throw Error(
        fmt::format("{} steps in a row had a gradient that is not finite, the last in {}\n  Lower the learning rate, "
                    "or look at the data of these steps.",
                    skipped_in_a_row_, report.culprit));
  }
  return report;
}

void Engine::apply(const Move& move, double scale, double lr) {
  switch (move.kind) {
    case MoveKind::kGatherGradient:
      reducer_.gather_gradient(move.unit);
      return;
    case MoveKind::kUpdate:
      updater_.update(move.unit, reducer_.update_gradient(move.unit), reducer_.update_gradient_dtype(move.unit), scale,
                      lr);
      reducer_.updated(move.unit);
      return;
    case MoveKind::kGather:
      gatherer_.refresh(move.unit);
      return;
    case MoveKind::kRelease:
    case MoveKind::kReduce:
    case MoveKind::kFetch:
    case MoveKind::kSpill:
      break;
  }
  ZERO_CHECK(false, "{} does not belong into step()", describe(move, state_.units()));
}

Agreement Engine::exchange_findings() {
  RankFindings mine{.trace_hash = hash_of(executor_.trace()), .present = reducer_.present()};
  for (const Unit& unit : state_.units()) {
    const bool reduced = unit.trainable && executor_.finished_backwards() > 0;
    const ReduceStats stats = reduced ? reducer_.stats(unit.index) : ReduceStats{};
    mine.sum_squares.push_back(stats.sum_squares);
    mine.num_non_finite += stats.num_non_finite;
    if (stats.num_non_finite > 0 && mine.first_bad_param < 0)
      mine.first_bad_param = reducer_.first_non_finite(unit.index);
  }
  const Agreement agreed = agree(comm_, mine);
  if (agreed.departed_rank >= 0 && state_.placement().parameter_sharded) {
    throw CommError(
        agreed.departed_rank, "step",
        "its model did something else in this step than rank 0's\n  With sharded parameters every rank must run the "
        "same operators in the same order; stages 0 to 2 do not ask for it.");
  }
  return agreed;
}

void Engine::read_full_precision(int unit, const std::function<void(std::span<const float>)>& read) {
  rethrow_stored();
  finish();
  const Shard own = state_.shard(unit);
  const std::int64_t numel = own.numel * comm_.world();
  BlockPool& blocks = reducer_.blocks();
  const auto give_back = [&blocks](std::byte* block) { blocks.release(block); };
  const std::unique_ptr<std::byte, decltype(give_back)> block(
      blocks.acquire(numel * static_cast<std::int64_t>(sizeof(float)), 0, MemoryTag::kGathered), give_back);
  if (blocks.reused_last()) comm_.drain();
  const std::span<float> whole(reinterpret_cast<float*>(block.get()), static_cast<std::size_t>(numel));
  const std::span<float> shard =
      whole.subspan(static_cast<std::size_t>(own.offset), static_cast<std::size_t>(own.numel));
  state_.read_full_precision_shard(unit, shard);
  comm_.all_gather(std::as_bytes(shard), std::as_writable_bytes(whole), {.unit = unit, .control = true}).wait();
  comm_.drain();
  read(whole);
}

void Engine::finish() {
  executor_.end_backward();
  gatherer_.finish();
}

void Engine::unpin(int unit) noexcept {
  try {
    gatherer_.unpin(unit);
  } catch (...) {
    if (stored_ == nullptr) stored_ = std::current_exception();
  }
}

void Engine::rethrow_stored() {
  if (stored_ != nullptr) [[unlikely]]
    std::rethrow_exception(std::exchange(stored_, nullptr));
}

PhaseSeconds Engine::phase_seconds() const {
  return {gatherer_.seconds(), reducer_.seconds(), updater_.seconds(), comm_.waited_seconds()};
}

PhaseSeconds Engine::take_phase_seconds() {
  const PhaseSeconds now = phase_seconds();
  const PhaseSeconds since{now.gather - taken_.gather, now.reduce - taken_.reduce, now.update - taken_.update,
                           now.wait - taken_.wait};
  taken_ = now;
  return since;
}

EngineReport Engine::report() const {
  EngineReport report{.world = comm_.world(),
                      .rank = comm_.rank(),
                      .stage = options_.stage,
                      .transport = std::string(comm_.transport())};
  report.memory = memory_at_update_;
  report.peak_memory = ledger_.peak(Tier::kDevice);
  report.peak_memory_bytes = ledger_.peak_total(Tier::kDevice);
  report.sent_bytes_per_step = step_traffic_.sent_bytes;
  report.received_bytes_per_step = step_traffic_.received_bytes;
  if (!schedule().stations.empty())
    report.planned_sent_bytes = simulate(schedule(), state_.units(), comm_.world()).sent_bytes;
  report.skipped_steps = num_skipped_;
  report.departed_steps = num_departed_;
  const Placement& placement = state_.placement();
  for (const ParamSpec& spec : specs_) {
    report.num_parameters += spec.numel();
    if (!spec.trainable) {
      report.state_formula_bytes += static_cast<double>(spec.numel()) * static_cast<double>(size_of(spec.dtype)) /
                                    (placement.parameter_sharded ? comm_.world() : 1);
      continue;
    }
    report.state_formula_bytes +=
        state_formula_bytes(spec.numel(), comm_.world(), options_.stage, spec.dtype, rule_->num_moments());
    report.sent_formula_bytes +=
        sent_formula_numel(spec.numel(), comm_.world(), placement) * static_cast<double>(size_of(spec.dtype));
  }
  for (const Unit& unit : state_.units())
    report.padding_bytes += padding_numel(unit, comm_.world()) * static_cast<std::int64_t>(size_of(unit.dtype));
  return report;
}

}  // namespace zero
