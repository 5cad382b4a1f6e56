#include "zero/engine/engine_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/engine/gradient_access.h"
#include "zero/engine/options/option_numbers.h"
#include "zero/engine/reduce/gradient_arrivals.h"

namespace zero {
namespace {

// Returns the norm of the copies' common gradient, or, if copies train apart, the mean of the norms of their gradients.
double mean_norm(const std::vector<double>& sum_squares, bool apart, double divisor) {
  if (!apart) return std::sqrt(sum_squares.front()) / divisor;
  double norms = 0;
  for (const double sum : sum_squares) norms += std::sqrt(sum) / divisor;
  return norms / static_cast<double>(sum_squares.size());
}

std::string_view short_group_remedy(bool has_leaves) {
  if (has_leaves)
    return "run accumulate passes before step(), because a step has all of its leaves (train.leaves); or drop the "
           "group with discard_gradients()";
  return "run accumulate passes before step(). For a short group call step(lr, {.fewer_micro_batches = true}), or drop "
         "it with discard_gradients()";
}

std::string describe_skip(const StepReport& report, const StepSync& agreed) {
  switch (report.reason) {
    case SkipReason::kLossSpike:
      return fmt::format("its loss of {:.6g} is beyond {:.6g}", report.loss, agreed.max_loss);
    case SkipReason::kNormSpike:
      return fmt::format("its gradient's norm of {:.6g} is beyond {:.6g}", report.grad_norm, agreed.max_grad_norm);
    case SkipReason::kNone:
    case SkipReason::kOverflow:
    case SkipReason::kNonFinite:
      break;
  }
  const bool bad_loss = agreed.loss && !std::isfinite(*agreed.loss);
  if (report.bad_parameter.empty() && agreed.num_non_finite > 0 && !bad_loss)
    return "a gradient of another section is not finite";
  if (report.bad_parameter.empty()) return "its loss is not finite";
  return fmt::format("the gradient of {} is not finite", report.bad_parameter);
}

}  // namespace

void EngineStep::begin_backward() {
  if (parts_.passes.in_own_backward()) return;
  state_mover_.look();
  update_times_.before_backward();
  parts_.passes.begin_backward();
  scaled_before_ = num_scaled_;
  dropped_ = false;
}

void EngineStep::drop(const std::vector<bool>& params) {
  if (!parts_.passes.has_gradients()) return;
  parts_.passes.end_backward();
  update_times_.before_drop();
  if (leaves_gradients(parts_.comms.run, params, parts_.reducer.arrivals().present())) {
    if (parts_.leaves && parts_.executor.finished_backwards() < parts_.options.accumulate)
      throw ConfigError("train.leaves", fmt::format("{}", parts_.options.leaves),
                        "gradients of some parameters are dropped between the micro-batches of a step",
                        "drop all gradients (zero_grad() of the module), or drop them after the last micro-batch");
    parts_.reducer.drop(params);
    return;
  }
  parts_.reducer.clear();
  parts_.secondary.outdate();
  parts_.passes.restart_step();
  statistics_.step_restarts();
  num_scaled_ -= scaled_before_;  // losses of the dropped passes; a loss of the next pass may already be scaled
  scaled_before_ = 0;
  dropped_ = true;
}

StepSync EngineStep::agree(const StepRates& rates, const StepLimits& limits) {
  if (parts_.averaged)
    throw ConfigError("step", "", "step() inside averaged(): parameters hold their moving averages",
                      "end the averaged() scope first");
  require_rates(rates, parts_.options.groups.size());
  end_passes(limits.fewer_micro_batches);
  return exchange_results(rates, limits);
}

StepReport EngineStep::carry_out(const StepSync& agreed, const StepRates& rates) {
  const int passes = parts_.executor.finished_backwards();
  warn_without_gradients(agreed);
  update_times_.after_agreement();
  anchor();
  statistics_.before_update();
  ++num_taken_;
  state_mover_.rebalance(agreed.wanted_bytes, num_updates_);
  if (num_taken_ == kProfileStep) state_mover_.learn(statistics_.profile(), num_updates_);

  const double divisor = gradient_divisor(parts_, passes);
  const std::optional<LocalSteps>& local = parts_.options.local;
  const auto copy = static_cast<std::size_t>(local ? parts_.comms.copy_number() : 0);
  StepReport report = report_of(agreed, mean_norm(agreed.sum_squares, local.has_value(), divisor));
  report.skipped ? skip(report, agreed) : apply(agreed, std::sqrt(agreed.sum_squares[copy]) / divisor, divisor, rates);
  report.step = num_updates_;
  parts_.secondary.outdate();

  note_step();
  parts_.reducer.clear();
  num_scaled_ = scaled_before_ = 0;
  num_trace_mismatches_ += parts_.executor.replay().mismatched() ? 1 : 0;
  parts_.passes.close_step(agreed.mismatched_rank < 0);
  statistics_.step_ends();
  report.merged = outer_.step_done(num_done(), num_updates_);
  if (report.skipped && skipped_in_a_row_ >= parts_.options.max_skipped_steps) {
    throw Error(
        fmt::format("{} steps in a row were skipped, the last because {}\n  Lower the learning rate, or look at the "
                    "data of these steps.",
                    skipped_in_a_row_, describe_skip(report, agreed)));
  }
  return report;
}

void EngineStep::give_away(const TakeGradient& take, const std::function<void()>& taken) {
  end_passes();
  if (parts_.executor.finished_backwards() == 0)
    throw ConfigError("step", "", "step() without a backward pass", "run a backward pass before each step()");
  statistics_.before_update();
  ++num_taken_;
  ReducedGradients& sums = parts_.reducer.sums();
  for (const Unit& unit : parts_.state.units()) {
    if (!unit.trainable) continue;
    sums.gather(unit.index);
    take(unit.index, sums.for_update(unit.index), sums.update_dtype(unit.index));
  }
  taken();
  for (const Unit& unit : parts_.state.units()) sums.updated(unit.index);
  ++num_updates_;
  parts_.reducer.clear();
  num_scaled_ = scaled_before_ = 0;
  parts_.passes.close_step(true);
  statistics_.step_ends();
}

void EngineStep::note_step() {
  parts_.comms.run.note_step(num_updates_);
  parts_.unit_comms.begin_step(num_updates_);
}

// Changes no gradients before it throws: more passes, a step over fewer passes, or a drop may follow.
void EngineStep::require_passes(int passes, bool fewer_micro_batches) const {
  const int accumulate = parts_.options.accumulate;
  if (dropped_)
    throw ConfigError("step", "", "step() after its gradients were dropped, without a backward pass since then",
                      "call zero_grad() before a backward pass, or leave out this step(); outside a backward pass "
                      ".mutable_grad() counts as zero_grad() of its parameter");
  if ((accumulate == 1 && !parts_.leaves) || passes == accumulate) return;
  if (fewer_micro_batches && !parts_.leaves && passes >= 1 && passes < accumulate) return;
  throw ConfigError("accumulate", fmt::format("{}", accumulate),
                    fmt::format("this step had {} backward passes", passes),
                    passes < accumulate && passes > 0
                        ? short_group_remedy(parts_.leaves.has_value())
                        : "drop them with discard_gradients(), then run accumulate passes before each step()");
}

void EngineStep::end_passes(bool fewer_micro_batches) {
  parts_.passes.end_backward();
  const int passes = parts_.executor.finished_backwards();
  require_passes(passes, fewer_micro_batches);
  require_scaled(passes);
  if (!parts_.gatherer.uses().pinned().empty())
    throw ConfigError("step", "", "called while parameters are gathered", "end the gathered() scope first");
  if (passes > 0 && passes < parts_.options.accumulate) parts_.executor.end_short_group();
  parts_.passes.end();
  parts_.gatherer.finish();
  parts_.reducer.finish();
  parts_.state.streams().finish_offloads();
  update_times_.before_agreement();
  parts_.gatherer.prefetches().cancel();
}

double EngineStep::scale_loss() {
  ++num_scaled_;
  return loss_scale();
}

double EngineStep::loss_scale() const {
  return parts_.loss_scale ? parts_.loss_scale->value() : 1.0;
}

void EngineStep::warn_without_gradients(const StepSync& agreed) {
  const bool any = std::ranges::find(agreed.present, true) != agreed.present.end();
  const bool trains = std::ranges::any_of(parts_.specs, &ParamSpec::trainable);
  if (any || !trains || std::exchange(said_without_gradients_, true) || parts_.comms.run.rank() != 0) return;
  ZERO_LOG(warn,
           "step {} updates nothing: no parameter has a gradient on any rank (printed once). Call backward() on a loss "
           "that depends on the attached module, and register all of its parts with register_module()",
           num_updates_ + 1);
}

// The update would also divide an unscaled gradient by the scale.
void EngineStep::require_scaled(int passes) const {
  if (!parts_.loss_scale || parts_.loss_scale->value() == 1 || num_scaled_ >= passes) return;
  throw ConfigError("loss_scale", fmt::format("{}", parts_.loss_scale->value()),
                    fmt::format("this step had {} backward passes and {} scaled losses", passes, num_scaled_),
                    "call backward() on engine.scaled(loss), for every loss");
}

StepSync EngineStep::exchange_results(const StepRates& rates, const StepLimits& limits) {
  require_leaf_losses(limits);
  RankStep mine{.trace_hash = hash_of(parts_.executor.replay().trace()),
                .wanted_bytes = state_mover_.wanted(num_updates_),
                .present = parts_.reducer.arrivals().present(),
                .loss = limits.loss,
                .leaf_losses = limits.leaf_losses,
                .max_loss = limits.max_loss,
                .max_grad_norm = limits.max_grad_norm,
                .lr = rates.lr,
                .rates_hash = hash_of(rates),
                .passes = parts_.executor.finished_backwards(),
                .write_hash = parts_.writes.hash()};
  for (const Unit& unit : parts_.state.units()) {
    const bool reduced = unit.trainable && parts_.executor.finished_backwards() > 0;
    const ReduceStats stats = reduced ? parts_.reducer.sums().stats(unit.index) : ReduceStats{};
    mine.sum_squares.add(stats.sum_squares);
    mine.num_non_finite += stats.num_non_finite;
    if (stats.num_non_finite > 0 && mine.first_bad_param < 0)
      mine.first_bad_param = parts_.reducer.sums().first_non_finite(unit.index);
  }
  const StepSync agreed =
      exchange(parts_.comms.run, mine, parts_.comms.mesh.shard, parts_.leaves ? &*parts_.leaves : nullptr);
  require_limits(agreed.max_loss, agreed.max_grad_norm);
  if (const auto& other = agreed.other_rate)
    throw ConfigError(
        "step", fmt::format("rank {}", other->rank),
        fmt::format("its learning rate is {}, and rank 0's is {}", other->lr, other->first),
        "give every rank the same learning rate; a schedule that follows a loss must use its mean over ranks");
  if (agreed.other_rates_rank >= 0)
    throw ConfigError("step", fmt::format("rank {}", agreed.other_rates_rank),
                      "its learning rates or weight decays of groups differ from those of rank 0",
                      "give every rank the same numbers; a schedule that follows a loss must use its mean over ranks");
  if (const auto& other = agreed.other_passes; other && parts_.options.accumulate > 1)
    throw ConfigError("accumulate", fmt::format("{}", parts_.options.accumulate),
                      fmt::format("rank {} had {} micro-batches in this step, and rank 0 had {}", other->rank,
                                  other->passes, other->first),
                      "give every rank the same number of micro-batches in each step");
  if (!parts_.writes.same(agreed.write_hashes)) parts_.writes.refuse(parts_.comms.run, parts_.specs);
  if (agreed.mismatched_rank >= 0 && parts_.state.placement().parameter_sharded) {
    throw CommError(agreed.mismatched_rank, "step",
                    "in this step its model ran different operators than rank 0's model\n  With sharded parameters "
                    "every rank must run the same operators in the same order; stages 0 to 2 do not need this.");
  }
  return agreed;
}

void EngineStep::require_leaf_losses(const StepLimits& limits) const {
  const std::size_t given = limits.leaf_losses.size();
  if (given == 0 || (parts_.leaves && given == static_cast<std::size_t>(parts_.leaves->passes()))) return;
  throw ConfigError("step(limits.leaf_losses)", fmt::format("{} losses", given),
                    parts_.leaves ? fmt::format("this rank has {} micro-batches in a step", parts_.leaves->passes())
                                  : std::string("the options have no leaves"),
                    "give a loss for each micro-batch, or leave it empty");
}

// If the loss is not finite, a lower scale does not help.
SkipReason EngineStep::reason_to_skip(const StepSync& agreed, double norm) const {
  const bool bad_loss = agreed.loss && !std::isfinite(*agreed.loss);
  const bool may_fall = parts_.loss_scale && parts_.loss_scale->may_fall();
  if (agreed.num_non_finite > 0 && may_fall && !bad_loss) return SkipReason::kOverflow;
  if (agreed.num_non_finite > 0 || bad_loss) return SkipReason::kNonFinite;
  if (agreed.loss && *agreed.loss > agreed.max_loss) return SkipReason::kLossSpike;
  return norm > agreed.max_grad_norm ? SkipReason::kNormSpike : SkipReason::kNone;
}

StepReport EngineStep::report_of(const StepSync& agreed, double norm) const {
  StepReport report{.grad_norm = norm, .reason = reason_to_skip(agreed, norm)};
  if (parts_.loss_scale) report.loss_scale = parts_.loss_scale->value();
  report.skipped = report.reason != SkipReason::kNone;
  if (agreed.loss) report.loss = *agreed.loss;
  if (report.skipped && agreed.first_bad_param >= 0)
    report.bad_parameter = parts_.specs[static_cast<std::size_t>(agreed.first_bad_param)].name;
  return report;
}

// A delayed update keeps the scale of its own losses.
void EngineStep::apply(const StepSync& agreed, double norm, double divisor, const StepRates& rates) {
  const double clip = parts_.options.clip > 0 ? std::min(1.0, parts_.options.clip / (norm + 1e-6)) : 1.0;
  const bool late = parts_.options.delayed_update && num_updates_ >= parts_.options.exact_steps;
  if (late && num_delayed_++ == 0 && parts_.comms.run.rank() == 0)
    ZERO_LOG(info, "from now on gradients are applied one step late (zero.delayed_update)");
  update_times_.apply({.present = agreed.present, .scale = clip / divisor, .rates = rates}, late);
  if (parts_.loss_scale) parts_.loss_scale->updated();
  ++num_updates_;
  skipped_in_a_row_ = 0;
}

void EngineStep::skip(const StepReport& report, const StepSync& agreed) {
  ++num_skipped_;
  if (parts_.loss_scale && agreed.num_non_finite > 0) parts_.loss_scale->overflowed();
  if (report.reason == SkipReason::kOverflow) {
    if (parts_.comms.run.rank() == 0)
      ZERO_LOG(warn, "a step is skipped: {} with a loss scale of {}; from now on the scale is {}",
               describe_skip(report, agreed), *report.loss_scale, parts_.loss_scale->value());
    return;
  }
  ++skipped_in_a_row_;
  if (parts_.comms.run.rank() == 0)
    ZERO_LOG(warn, "a step is skipped: {} ({} in a row)", describe_skip(report, agreed), skipped_in_a_row_);
}

EngineProgress EngineStep::progress() const {
  return {.steps = num_updates_,
          .skipped = num_skipped_,
          .skipped_in_a_row = skipped_in_a_row_,
          .delayed = num_delayed_,
          .loss_scale = parts_.loss_scale ? parts_.loss_scale->state() : LossScale::State{},
          .updates = parts_.updater.values().steps()};
}

void EngineStep::set_progress(const EngineProgress& progress) {
  ZERO_CHECK(progress.updates.size() == parts_.specs.size(), "{} parameters, {} counts", parts_.specs.size(),
             progress.updates.size());
  num_updates_ = progress.steps;
  note_step();
  num_skipped_ = progress.skipped;
  skipped_in_a_row_ = static_cast<int>(progress.skipped_in_a_row);
  num_delayed_ = progress.delayed;
  outer_.restore(num_done());
  if (parts_.loss_scale) parts_.loss_scale->restore(progress.loss_scale);
  parts_.updater.values().set_steps(progress.updates);
}

void EngineStep::add_to(EngineReport& report) const {
  report.skipped_steps = num_skipped_;
  if (parts_.loss_scale) report.loss_scale = parts_.loss_scale->value();
  report.delayed_steps = num_delayed_;
  report.trace_mismatches = num_trace_mismatches_;
}

}  // namespace zero
