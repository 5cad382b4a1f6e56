#include "zero/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>

#include "zero/base/bytes.h"
#include "zero/base/check.h"
#include "zero/base/clock.h"
#include "zero/base/log.h"
#include "zero/base/machine.h"
#include "zero/comm/collectives.h"
#include "zero/engine/engine_seams.h"
#include "zero/memory/disk_seam.h"
#include "zero/plan/estimate.h"

namespace zero {
namespace {

GatherBudget agreed_budget(Communicator& comm, const std::vector<Unit>& units, const EngineOptions& options,
                           const Placer& placer, int num_moments) {
  // Device and host are both main memory: what lies on the host is not free for the device.
  const GatherBudget mine = gather_budget(options.device_memory, units, comm.world(), placer.placement(), num_moments,
                                          options.stage, placer.free_bytes() - placer.held().host);
  return {.capacity_bytes = all_reduce_min(comm, mine.capacity_bytes),
          .prefetched_numel = mine.prefetched_numel,
          .overlaps_updates = overlaps_updates(placer.may_lie(), units, comm.world(), num_moments, options.offload)};
}

std::unique_ptr<DiskTier> make_disk(const OffloadOptions& options, std::int64_t bytes, Timeline* timeline) {
  require_disk(options, bytes);
  if (bytes == 0) return nullptr;
  return std::make_unique<DiskTier>(DiskOptions{.paths = options.disk,
                                                .bytes = bytes,
                                                .checksums = options.checksums,
                                                .timeout = options.disk_timeout,
                                                .timeline = timeline},
                                    DiskSeam::or_none(seams_of(options).disk_seam));
}

std::vector<std::string> names_of(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return names;
}

// The monitor's thread calls it, and so does whoever takes it from options().
MemoryMonitor::Source one_at_a_time(MemoryMonitor::Source read) {
  if (!read) return read;
  return [read = std::move(read), mutex = std::make_shared<std::mutex>()] {
    const std::scoped_lock lock(*mutex);
    return read();
  };
}

EngineOptions checked(EngineOptions options) {
  if (!std::isfinite(options.clip) || options.clip < 0) {
    throw ConfigError("train.clip", fmt::format("{}", options.clip), "a norm is a finite number >= 0",
                      "0 turns clipping off");
  }
  if (options.threads < 1)
    throw ConfigError("run.threads", fmt::format("{}", options.threads), "a rank needs a thread",
                      "set it to 1 or more");
  options.offload.monitor.read = one_at_a_time(std::move(options.offload.monitor.read));
  return options;
}

IoError told_by(int rank, const std::vector<Unit>& units, const IoError& error) {
  if (error.unit() < 0) return error.within(fmt::format("rank {}", rank));
  return error.within(fmt::format("rank {}: unit {}", rank, units[static_cast<std::size_t>(error.unit())].name));
}

}  // namespace

Engine::Engine(Communicator& comm, std::vector<ParamSpec> specs, std::vector<Unit> units, const EngineOptions& options,
               UnitObserver& observer) try
    : comm_(comm),
      specs_(std::move(specs)),
      options_(checked(options)),
      rule_(make_update_rule(options.optimizer)),
      placer_(&comm, comm.world(), options_, units, *rule_),
      budget_(agreed_budget(comm, units, options, placer_, rule_->num_moments())),
      disk_(make_disk(options.offload,
                      state_bytes(units, comm.world(), placer_.may_lie(), rule_->num_moments(), Tier::kDisk).total(),
                      options.timeline)),
      link_(options.offload.link_bytes_per_second > 0
                ? std::make_unique<Link>(options.offload.link_bytes_per_second, options.timeline)
                : nullptr),
      state_(units, placer_.placement(), rule_->num_moments(), comm, ledger_,
             {.disk = disk_.get(),
              .link = link_.get(),
              .depth = tiles_ahead(options.offload.host_memory, units, comm.world(), placer_.placement(),
                                   placer_.may_lie(), rule_->num_moments(), placer_.free_bytes()),
              .movable = placer_.movable()}),
      gatherer_(state_, comm, ledger_, observer, options.timeline),
      reducer_(state_, specs_.size(), budget_.is_minimum(), comm, ledger_, options.timeline),
      updater_(state_, *rule_, specs_, options_),
      executor_(state_, budget_, gatherer_, reducer_),
      clock_(units.size(),
             [this] {
               return monotonic_seconds() - gatherer_.timer().seconds() - reducer_.timer().seconds() -
                      updater_.seconds();
             }),
      exchange_clock_(units.size(), [this] { return exchange_seconds(); }),
      at_last_step_(comm.traffic()) {
  // One set of blocks for what is gathered and what is reduced: at the end of the backward pass, when memory is
  // scarcest, the largest block that a gather needed serves a gradient.
  if (budget_.is_minimum()) gatherer_.borrow_blocks(reducer_.blocks());
  Gatherer::Updates updates{.current = [this](int unit) { return updater_.current(unit); },
                            .complete = [this](int unit) { updater_.complete(unit); }};
  // What was updated on the host is on the device when it has crossed the link; without one it can be used at once.
  if (link_ == nullptr)
    updates.complete_into = [this](int unit, std::byte* into) { return updater_.complete_into(unit, into); };
  gatherer_.set_updates(std::move(updates));
  if (placer_.placement().delayed_update) {
    delayed_.emplace(state_, updater_);
    reducer_.set_summed([this](int unit, int pass) {
      if (!delayed_->open() || pass < options_.accumulate - 1 || !executor_.done_with(unit)) return;
      comm_.drain();  // a late peer may still read the shard that will be written
      delayed_->unit_is_free(unit);
    });
  }
  executor_.set_clocks({&clock_, &exchange_clock_});
  if (options_.offload.monitor.on) rebalancer_.emplace(placer_, budget_, units, comm.world(), options_);
  if (options.timeline != nullptr) options.timeline->name_units(names_of(state_.units()));
} catch (const IoError& error) {
  throw told_by(comm.rank(), units, error);
}

Engine::~Engine() = default;

template <typename Body>
auto Engine::fatal_if_io_fails(Body body) {
  rethrow_stored();
  try {
    return body();
  } catch (const IoError& error) {
    fail(error);
    std::rethrow_exception(failed_);
  }
}

void Engine::fail(const IoError& error) {
  if (failed_ == nullptr) failed_ = std::make_exception_ptr(told_by(comm_.rank(), state_.units(), error));
}

void Engine::load(int unit, const std::byte* whole, DType dtype) {
  fatal_if_io_fails([&] {
    updater_.finish();
    state_.load(unit, whole, dtype);
  });
}

void Engine::mark_written(int unit) {
  fatal_if_io_fails([&] {
    updater_.finish();  // it still writes what was used
    gatherer_.mark_written(unit);
  });
}

GatheredUnit Engine::use(int unit, Use why) {
  fatal_if_io_fails([&] { bring(unit, why); });
  gatherer_.pin(unit);
  return {static_cast<UnitPins&>(*this), unit};
}

void Engine::bring(int unit, Use why) {
  if (delayed_) {
    if (why == Use::kForward) executor_.end_backward();  // which may free units
    refuse_half_updated(unit, why);
  }
  updater_.pump();
  gatherer_.pump();
  reducer_.pump();
  if (why == Use::kUntraced) {
    updater_.finish();  // whoever uses a unit outside training may write
    const Traffic before = comm_.traffic();
    const double exchanged = exchange_seconds();
    executor_.use_untraced(unit);
    exchanged_untraced_ += exchange_seconds() - exchanged;
    untraced_.sent_bytes += comm_.traffic().sent_bytes - before.sent_bytes;
    untraced_.received_bytes += comm_.traffic().received_bytes - before.received_bytes;
  } else {
    if (why == Use::kForward) executor_.end_backward();
    if (why == Use::kBackward) begin_backward();
    executor_.access(unit);
  }
}

void Engine::refuse_half_updated(int unit, Use why) const {
  if (!delayed_->started()) return;
  if (why == Use::kUntraced) {
    throw ConfigError("zero.delayed_update", "true",
                      "parameters are used between a backward pass and step(), when some are updated and some are not",
                      "use them before the forward pass or after step(), or turn it off");
  }
  if (delayed_->is_free(unit)) {
    throw Error(
        fmt::format("{} is used again after its delayed update began: this step departs from the recorded one\n"
                    "  Turn zero.delayed_update off for models whose steps differ.",
                    state_.unit(unit).name));
  }
}

void Engine::begin_backward() {
  if (rebalancer_ && !executor_.in_backward()) rebalancer_->look();
  if (!executor_.in_backward() && !(delayed_ && delayed_->open())) {
    updater_.finish();  // gradients that it still reads will change
    if (delayed_) delayed_->begin(executor_.schedule().reduce_order);
  }
  executor_.begin_backward();
}

void Engine::add_gradient(int param, const std::byte* gradient) {
  fatal_if_io_fails([&] {
    begin_backward();
    reducer_.add(param, gradient);
    executor_.gradient_arrived(reducer_.unit_of(param));
  });
}

void Engine::end_micro_batch() {
  fatal_if_io_fails([&] { executor_.end_backward(); });
}

void Engine::settle() {
  if (!rebalancer_ || !placer_.movable() || num_taken_ > 0) return;
  fatal_if_io_fails([this] {
    const auto held = [this](Tier tier) { return ledger_.held(tier, MemoryTag::kGradient); };
    const std::int64_t untouched = untouched_bytes() + held(Tier::kDevice) + held(Tier::kHost);
    const std::int64_t wanted = all_reduce_max(comm_, rebalancer_->wanted(untouched));
    if (wanted > 0) rebalance(wanted);
  });
}

StepReport Engine::step(double lr, const StepLimits& limits) {
  return fatal_if_io_fails([&] { return take_step(lr, limits); });
}

namespace {

SkipReason reason_to_skip(const StepSync& agreed, double norm) {
  if (agreed.num_non_finite > 0 || (agreed.loss && !std::isfinite(*agreed.loss))) return SkipReason::kNonFinite;
  if (agreed.loss && *agreed.loss > agreed.max_loss) return SkipReason::kLossSpike;
  return norm > agreed.max_grad_norm ? SkipReason::kNormSpike : SkipReason::kNone;
}

std::string told(const StepReport& report, const StepSync& agreed) {
  switch (report.reason) {
    case SkipReason::kLossSpike:
      return fmt::format("its loss of {:.6g} is beyond {:.6g}", report.loss, agreed.max_loss);
    case SkipReason::kNormSpike:
      return fmt::format("its gradient's norm of {:.6g} is beyond {:.6g}", report.grad_norm, agreed.max_grad_norm);
    case SkipReason::kNone:
    case SkipReason::kNonFinite:
      break;
  }
  if (report.culprit.empty()) return "its loss is not finite";
  return fmt::format("the gradient of {} is not finite", report.culprit);
}

}  // namespace

StepReport Engine::take_step(double lr, const StepLimits& limits) {
  end_micro_batch();
  const int passes = executor_.finished_backwards();
  if (options_.accumulate > 1 && passes != options_.accumulate) {
    throw ConfigError("accumulate", fmt::format("{}", options_.accumulate),
                      fmt::format("this step had {} backward passes", passes),
                      "run forward and backward as often as attach() was told, then step()");
  }
  if (!gatherer_.pinned().empty())
    throw ConfigError("step", "", "called while parameters are gathered", "end the gathered() scope first");
  executor_.event({EventKind::kStep, -1, {}});
  gatherer_.finish();
  reducer_.finish();
  state_.finish_offloads();
  if (!delayed_ || !delayed_->open()) updater_.finish();
  gatherer_.cancel_prefetches();
  const StepSync agreed = sync_step(limits);
  if (delayed_) delayed_->begin(executor_.schedule().reduce_order);  // a step without a backward pass
  release_delayed();
  for (const Tier tier : kAllTiers) memory_at_update_[static_cast<std::size_t>(tier)] = ledger_.held(tier);

  ++num_taken_;
  if (rebalancer_) rebalance(agreed.wanted_bytes);
  if (num_taken_ == kProfileStep) learn_placement();

  const int summed = num_summed(passes);
  const double norm = std::sqrt(agreed.sum_squares) / summed;
  StepReport report{.grad_norm = norm, .reason = reason_to_skip(agreed, norm)};
  report.skipped = report.reason != SkipReason::kNone;
  if (agreed.loss) report.loss = *agreed.loss;
  if (!report.skipped) {
    update(agreed, norm, summed, lr);
    ++num_steps_;
    skipped_in_a_row_ = 0;
  } else {
    if (agreed.first_bad_param >= 0) report.culprit = specs_[static_cast<std::size_t>(agreed.first_bad_param)].name;
    ++num_skipped_;
    ++skipped_in_a_row_;
    if (comm_.rank() == 0)
      ZERO_LOG(warn, "a step is skipped: {} ({} in a row)", told(report, agreed), skipped_in_a_row_);
  }
  report.step = num_steps_;
  comm_.note_step(num_steps_);
  reducer_.clear();
  num_mismatches_ += executor_.mismatched() ? 1 : 0;
  executor_.close_step(agreed.mismatched_rank < 0);

  count_traffic();
  if (report.skipped && skipped_in_a_row_ >= options_.max_skipped_steps) {
    throw Error(
        fmt::format("{} steps in a row were skipped, the last because {}\n  Lower the learning rate, or look at the "
                    "data of these steps.",
                    skipped_in_a_row_, told(report, agreed)));
  }
  return report;
}

void Engine::update(const StepSync& agreed, double norm, int summed, double lr) {
  const double clip = options_.clip > 0 ? std::min(1.0, options_.clip / (norm + 1e-6)) : 1.0;
  const double scale = clip / summed;
  if (delayed_ && num_steps_ >= options_.exact_steps) {
    if (num_delayed_++ == 0 && comm_.rank() == 0)
      ZERO_LOG(info, "from here on gradients are applied a step late (zero.delayed_update)");
    delayed_->keep({.present = agreed.present, .scale = scale, .lr = lr});
    return;
  }
  if (delayed_) state_.keep_gradients();
  updater_.begin_step(agreed.present, update_order(), scale, lr);
  for (const Action& action : executor_.schedule().step) apply(action);
  if (!budget_.overlaps_updates) updater_.finish();
}

std::vector<int> Engine::update_order() const {
  std::vector<int> units;
  for (const Action& action : executor_.schedule().step) {
    if (action.kind == ActionKind::kUpdate) units.push_back(action.unit);
  }
  return units;
}

// What is left of the update that ran behind this step. Every rank is past its backward pass.
void Engine::release_delayed() {
  if (!delayed_ || !delayed_->open()) return;
  delayed_->release(update_order());
  if (budget_.overlaps_updates) return;
  updater_.finish();
  for (const Action& action : executor_.schedule().step) {
    if (action.kind == ActionKind::kGather) apply(action);
  }
}

void Engine::apply(const Action& action) {
  switch (action.kind) {
    case ActionKind::kGatherGradient:
      reducer_.gather_gradient(action.unit);
      return;
    case ActionKind::kUpdate:
      updater_.enqueue(action.unit, reducer_.update_gradient(action.unit), reducer_.update_gradient_dtype(action.unit));
      if (!budget_.overlaps_updates) updater_.complete(action.unit);
      reducer_.updated(action.unit);
      return;
    case ActionKind::kGather:
      gatherer_.refresh(action.unit);
      return;
    case ActionKind::kRelease:
    case ActionKind::kReduce:
    case ActionKind::kOffload:
    case ActionKind::kPrefetch:
      break;
  }
  ZERO_CHECK(false, "{} does not belong into step()", describe(action, state_.units(), state_.placement()));
}

StepSync Engine::sync_step(const StepLimits& limits) {
  RankStep mine{.trace_hash = hash_of(executor_.trace()),
                .present = reducer_.present(),
                .loss = limits.loss,
                .max_loss = limits.max_loss,
                .max_grad_norm = limits.max_grad_norm};
  if (rebalancer_) mine.wanted_bytes = rebalancer_->wanted(untouched_bytes());
  for (const Unit& unit : state_.units()) {
    const bool reduced = unit.trainable && executor_.finished_backwards() > 0;
    const ReduceStats stats = reduced ? reducer_.stats(unit.index) : ReduceStats{};
    mine.sum_squares.push_back(stats.sum_squares);
    mine.num_non_finite += stats.num_non_finite;
    if (stats.num_non_finite > 0 && mine.first_bad_param < 0)
      mine.first_bad_param = reducer_.first_non_finite(unit.index);
  }
  const StepSync agreed = exchange(comm_, mine);
  if (agreed.mismatched_rank >= 0 && state_.placement().parameter_sharded) {
    throw CommError(
        agreed.mismatched_rank, "step",
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
  comm_.drain();
  const auto give_back = [&blocks](std::byte* block) { blocks.release(block); };
  const std::unique_ptr<std::byte, decltype(give_back)> block(
      blocks.acquire(numel * static_cast<std::int64_t>(sizeof(float)), 0, MemoryTag::kGathered), give_back);
  const std::span<float> whole(reinterpret_cast<float*>(block.get()), static_cast<std::size_t>(numel));
  const std::span<float> shard =
      whole.subspan(static_cast<std::size_t>(own.offset), static_cast<std::size_t>(own.numel));
  fatal_if_io_fails([&] { state_.read_full_precision_shard(unit, shard); });
  comm_.all_gather(std::as_bytes(shard), std::as_writable_bytes(whole), {.unit = unit, .control = true}).wait();
  comm_.drain();
  read(whole);
}

void Engine::require_between_steps(std::string_view key, std::string_view what) const {
  if (executor_.in_backward() || executor_.finished_backwards() > 0)
    throw ConfigError(key, "", fmt::format("{} between a backward pass and its step()", what),
                      "do it after step(), when no gradient waits");
  if (!gatherer_.pinned().empty())
    throw ConfigError(key, "", fmt::format("{} while parameters are gathered", what), "end the gathered() scope first");
}

ReplicaCheck Engine::compare_replicas() {
  rethrow_stored();
  require_between_steps("replicas", "compared");
  if (comm_.world() == 1 || state_.placement().parameter_sharded) return {};
  return fatal_if_io_fails([&] {
    updater_.finish();
    gatherer_.finish();  // what the last update sends is part of them
    std::vector<std::uint64_t> hashes;
    for (const Unit& unit : state_.units()) hashes.push_back(replica_hash(state_, unit.index));
    return zero::compare_replicas(comm_, hashes, state_.units());
  });
}

void Engine::pause(std::string_view key, std::string_view what) {
  rethrow_stored();
  require_between_steps(key, what);
  finish();
  fatal_if_io_fails([&] {
    gatherer_.cancel_prefetches();
    state_.finish_offloads();
  });
  comm_.drain();
  for (const int unit : gatherer_.releasable()) gatherer_.release(unit);
  executor_.forget_access();
}

namespace {

// Calls a function of somebody else's until it throws, which is kept.
template <typename Function>
auto until_it_throws(const Function& function, std::exception_ptr& thrown) {
  return [&function, &thrown](auto... arguments) {
    if (thrown != nullptr) return;
    try {
      function(arguments...);
    } catch (...) {
      thrown = std::current_exception();
    }
  };
}

}  // namespace

void Engine::read_shard(int unit, int state, const ShardedState::ReadVisit& visit) {
  std::exception_ptr thrown;
  fatal_if_io_fails([&] { state_.read_shard(unit, state, until_it_throws(visit, thrown)); });
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

void Engine::write_held(int unit, int state, const ShardedState::WriteFill& fill) {
  std::exception_ptr thrown;
  fatal_if_io_fails([&] { state_.write_held(unit, state, until_it_throws(fill, thrown)); });
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

std::vector<std::string> Engine::state_names() const {
  std::vector<std::string> names{"parameter"};
  for (int which = 0; which < rule_->num_moments(); ++which) names.emplace_back(rule_->moment_name(which));
  return names;
}

EngineProgress Engine::progress() const {
  return {.steps = num_steps_,
          .skipped = num_skipped_,
          .skipped_in_a_row = skipped_in_a_row_,
          .delayed = num_delayed_,
          .updates = updater_.steps()};
}

void Engine::set_progress(const EngineProgress& progress) {
  ZERO_CHECK(progress.updates.size() == specs_.size(), "{} parameters, {} counts", specs_.size(),
             progress.updates.size());
  num_steps_ = progress.steps;
  comm_.note_step(num_steps_);
  num_skipped_ = progress.skipped;
  skipped_in_a_row_ = static_cast<int>(progress.skipped_in_a_row);
  num_delayed_ = progress.delayed;
  updater_.set_steps(progress.updates);
}

void Engine::finish(bool ends) {
  fatal_if_io_fails([&] {
    executor_.end_backward();
    gatherer_.finish();
    reducer_.wait();  // of a backward pass that no step() followed
    updater_.finish();
    apply_delayed(ends);
  });
}

// What waits to be applied behind a step that may never come.
void Engine::apply_delayed(bool ends) {
  if (!delayed_ || !(delayed_->waits() || delayed_->open())) return;
  const int passes = executor_.finished_backwards();
  if (!ends && (executor_.in_forward() || (passes > 0 && passes < options_.accumulate))) {
    throw ConfigError("zero.delayed_update", "true",
                      "parameters are read in the middle of a step that computes with them",
                      "read them between steps, where a gradient that waits is applied first");
  }
  if (!gatherer_.pinned().empty())
    throw ConfigError("zero.delayed_update", "true", "parameters are read while some are gathered",
                      "end the gathered() scope first");
  gatherer_.cancel_prefetches();
  comm_.drain();
  for (const int unit : gatherer_.releasable()) gatherer_.release(unit);
  executor_.forget_access();
  delayed_->begin(executor_.schedule().reduce_order);
  release_delayed();
  updater_.finish();
  gatherer_.finish();
}

void Engine::unpin(int unit) noexcept {
  if (failed_ != nullptr) return;  // nothing is written any more
  try {
    gatherer_.unpin(unit);
  } catch (const IoError& error) {
    fail(error);
  } catch (...) {
    if (stored_ == nullptr) stored_ = std::current_exception();
  }
}

void Engine::rethrow_stored() {
  if (failed_ != nullptr) [[unlikely]]
    std::rethrow_exception(failed_);
  if (stored_ != nullptr) [[unlikely]]
    std::rethrow_exception(std::exchange(stored_, nullptr));
}

}  // namespace zero
