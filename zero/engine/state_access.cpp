#include "zero/engine/state_access.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_step.h"
#include "zero/engine/states/unit_blocks.h"
#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

// Calls a caller's function until it throws, and keeps the exception.
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

// Temporary memory that the host reads: a block of the reducer if the host can read it, else pinned memory.
class HostBlock {
 public:
  HostBlock(EngineParts& parts, std::int64_t bytes) : blocks_(parts.reducer.blocks()) {
    if (parts.state.device().host_readable()) {
      data_ = blocks_.acquire(bytes, 0, MemoryTag::kGathered);
    } else {
      own_ = Buffer(parts.state.device().allocate_pinned(static_cast<std::size_t>(bytes)), parts.ledger, Tier::kHost,
                    MemoryTag::kGathered);
      data_ = own_.data();
    }
  }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  ~HostBlock() {
    if (!own_) blocks_.release(data_);
  }
  std::byte* data() const { return data_; }

 private:
  BlockPool& blocks_;
  Buffer own_;
  std::byte* data_ = nullptr;
};

}  // namespace

void StateAccess::load(int unit, const std::byte* whole, DType dtype) {
  io_.run([&] {
    parts_.updater.finish();
    parts_.state.contents().load(unit, whole, dtype);
  });
}

void StateAccess::require_between_steps(std::string_view key, std::string_view what) const {
  if (parts_.passes.has_gradients())
    throw ConfigError(key, "", fmt::format("{} between a backward pass and its step()", what),
                      "call it after step(), or drop these gradients first: zero_grad(), discard_gradients()");
  if (!parts_.gatherer.uses().pinned().empty())
    throw ConfigError(key, "", fmt::format("{} while parameters are gathered", what), "end the gathered() scope first");
}

void StateAccess::pause(std::string_view key, std::string_view what) {
  io_.rethrow();
  require_between_steps(key, what);
  if (parts_.averaged)
    throw ConfigError(key, "", fmt::format("{} inside averaged(): parameters hold their moving averages", what),
                      "end the averaged() scope first");
  io_.run([&] {
    give_up_what_was_begun();
    step_.anchor();
  });
}

void StateAccess::give_up_what_was_begun() {
  update_times_.settle();
  step_.finish_outer();
}

void StateAccess::exchange_averages(bool ends) {
  io_.rethrow();
  if (parts_.options.ema == 0 && !parts_.options.local)
    throw ConfigError("train.ema", "0", "the engine keeps no average of the weights",
                      "give attach() an average: .ema, for example 0.999");
  if (!ends) require_between_steps("averaged", "asked for");
  io_.run([&] {
    give_up_what_was_begun();
    step_.anchor();
    parts_.executor.run_rule(*make_exchange(*parts_.rule), updated_units(parts_.executor.schedule()), /*gathers=*/true);
    parts_.averaged = !parts_.averaged;
  });
}

void StateAccess::merge() {
  if (!parts_.options.local)
    throw ConfigError("sync.mode", "sync", "copies of the model do not train apart",
                      "give attach() outer steps: .local");
  pause("merge_copies", "called");
  io_.run([&] { step_.merge(); });
}

void StateAccess::read_shard(int unit, int state, const StateContents::ReadVisit& visit) {
  std::exception_ptr thrown;
  const auto until_thrown = until_it_throws(visit, thrown);
  io_.run([&] {
    is_average(state) ? read_average(unit, state, until_thrown)
                      : parts_.state.contents().read_shard(unit, state, until_thrown);
  });
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

bool StateAccess::is_average(int state) const {
  const std::vector<StateArrays::Optimizer>& states = parts_.state.arrays().optimizer;
  return parts_.options.ema > 0 && state > 0 && states[static_cast<std::size_t>(state - 1)].state.name == kAverageState;
}

// The rule begins an average with the first update of its parameter; before that the array holds zeros.
void StateAccess::read_average(int unit, int state, const StateContents::ReadVisit& visit) {
  const Unit& description = parts_.state.unit(unit);
  const std::vector<std::int64_t>& updates = parts_.updater.values().steps();
  const auto is_new = [&updates](const Slice& slice) { return updates[static_cast<std::size_t>(slice.param)] == 0; };
  StateContents& contents = parts_.state.contents();
  if (std::ranges::none_of(description.slices, is_new)) return contents.read_shard(unit, state, visit);
  const Shard own = parts_.state.shard(unit);
  std::vector<float> values(static_cast<std::size_t>(own.numel)), parameter(values.size());
  contents.read_shard(unit, state, [&](std::int64_t first, std::span<const std::byte> elements) {
    std::memcpy(values.data() + (first - own.offset), elements.data(), elements.size());
  });
  contents.read_full_precision_shard(unit, parameter);
  for (const Slice& slice : owned_in(description, own)) {
    const SlicePart part = overlap(slice, own);
    if (!is_new(slice) || part.numel == 0) continue;
    const std::int64_t begin = part.offset - own.offset;
    std::copy_n(parameter.begin() + begin, part.numel, values.begin() + begin);
  }
  if (own.numel > 0) visit(own.offset, std::as_bytes(std::span<const float>(values)));
}

void StateAccess::write_held(int unit, int state, const StateContents::WriteFill& fill) {
  std::exception_ptr thrown;
  io_.run([&] { parts_.state.contents().write_held(unit, state, until_it_throws(fill, thrown)); });
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

const StateContents& StateAccess::contents() const {
  return parts_.state.contents();
}

const std::vector<FactorStates::State>& StateAccess::factors() const {
  return parts_.state.factors().all();
}

EngineProgress StateAccess::progress() const {
  return step_.progress();
}

void StateAccess::set_progress(const EngineProgress& progress) {
  step_.set_progress(progress);
}

bool StateAccess::averaged() const {
  return parts_.averaged;
}

std::vector<std::string> StateAccess::names() const {
  std::vector<std::string> names{"parameter"};
  for (const StateArrays::Optimizer& each : parts_.state.arrays().optimizer) names.push_back(each.state.name);
  return names;
}

void StateAccess::read_full_precision(int unit, const std::function<void(std::span<const float>)>& read) {
  io_.run([&] { update_times_.finish(); });
  const Shard own = parts_.state.shard(unit);
  const Unit& description = parts_.state.unit(unit);
  const std::int64_t numel = padded_numel(description, parts_.state.world());
  const HostBlock block(parts_, numel * static_cast<std::int64_t>(sizeof(float)));
  const std::span<float> whole(reinterpret_cast<float*>(block.data()), static_cast<std::size_t>(numel));
  const std::span<float> shard =
      whole.subspan(static_cast<std::size_t>(own.offset), static_cast<std::size_t>(own.numel));
  io_.run([&] { parts_.state.contents().read_full_precision_shard(unit, shard); });
  all_gather(parts_.comms.copy, std::as_bytes(shard), std::as_writable_bytes(whole),
             {.unit = unit, .control = true, .blocks = unit_blocks(description, sizeof(float))});
  if (!description.scattered) return read(whole);
  const HostBlock ordered(parts_, std::ssize(whole) * static_cast<std::int64_t>(sizeof(float)));
  to_parameter_order(HostDevice::instance(), Lane::kGather, description, block.data(), ordered.data(), sizeof(float));
  read({reinterpret_cast<const float*>(ordered.data()), whole.size()});
}

ReplicaCheck StateAccess::compare_replicas() {
  io_.rethrow();
  require_between_steps("replicas", "compared");
  const EngineComms& comms = parts_.comms;
  const bool each_holds_its_own =
      comms.mesh.copies == 1 && parts_.state.placement().parameter_sharded && parts_.state.factors().empty();
  if (comms.run.world() == 1 || each_holds_its_own) return {};
  return io_.run([&] {
    parts_.updater.finish();
    parts_.gatherer.finish();  // the gathers of the last update are a part of the replicas
    return zero::compare_replicas(comms.run, comms.mesh, parts_.state);
  });
}

}  // namespace zero
