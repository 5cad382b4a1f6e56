#include "zero/serve/push_worker.h"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"
#include "zero/engine/options/options.h"

namespace zero {
namespace {

void refuse(std::string_view key, std::string_view value, std::string_view reason, std::string_view remedy) {
  throw ConfigError(key, value, reason, remedy);
}

void require_served(const AttachOptions& options) {
  if (options.local)
    refuse("sync.servers", fmt::format("{}", options.sync.servers), "copies that train apart (local) have no servers",
           "set only one of the two");
  if (options.group != 0)
    refuse("zero.group", fmt::format("{}", options.group), "with servers only the servers hold the model, in one copy",
           "leave it out, or leave out sync.servers");
  if (options.stage != 3)
    refuse("zero.stage", fmt::format("{}", options.stage), "servers also split parameters, and workers hold no states",
           "use 3, or leave out sync.servers");
  if (options.delayed_update)
    refuse("zero.delayed_update", "true", "servers update each clock before the next",
           "leave it out; with sync.mode stale workers continue during an update");
  if (options.dtype == DType::kFloat16 || options.loss_scale)
    refuse("train.dtype", "fp16", "all workers would need one loss scale, and servers do not keep one",
           "use bf16 or fp32, or leave out sync.servers");
}

}  // namespace

AttachOptions server_options(AttachOptions options) {
  require_served(options);
  options.accumulate = 1;  // workers sum micro-batches
  options.reduce = Reduce::kAuto;
  return options;
}

AttachOptions worker_options(AttachOptions options) {
  require_served(options);
  options = with_equal_ranges(std::move(options));
  options.stage = 0;
  options.ema = 0;
  options.offload = {};
  options.clip = 0;
  return options;
}

void require_arrivals(Communicator& run) {
  if (run.arrivals() == nullptr)
    refuse("comm.transport", run.transport(),
           "over this transport a server cannot wait for the first of several workers",
           "attach to all ranks of the run, or leave out sync.servers");
  if (run.world() > kMaxBoardRanks)
    refuse("sync.servers", fmt::format("{} ranks", run.world()),
           "there are too many servers and workers for one set of ranks",
           fmt::format("use at most {} ranks, or leave out sync.servers", kMaxBoardRanks));
}

PushWorker::PushWorker(RankEngine& engine, Communicator& run, const AttachOptions& options)
    : engine_(engine), run_(run), options_(options), layout_(engine.specs(), options) {
  for (int server = 0; server < layout_.servers(); ++server) {
    const auto bytes = static_cast<std::size_t>(layout_.block_bytes(server));
    blocks_.push_back(bytes == 0 ? Buffer()
                                 : Buffer(engine.resources().copy.allocate(bytes), engine.resources().ledger,
                                          Tier::kDevice, MemoryTag::kStaging));
  }
}

PushAnswer::Kind PushWorker::await_answer() {
  PushAnswer answer;
  Work work = run_.receive(std::as_writable_bytes(std::span(&answer, 1)), 0, {.control = true});
  await_message(run_, work, 0);
  if (answer.kind == PushAnswer::Kind::kOver) is_over_ = true;
  if (answer.kind == PushAnswer::Kind::kBegin) answer_ = answer;
  return answer.kind;
}

void PushWorker::begin() {
  has_begun_ = true;
  await_answer();
  if (is_over_) return;
  require_same_configuration();
  take_weights();
  waited_ = run_.waited_seconds();
  if (clock() >= end_) leave();
}

void PushWorker::require_same_configuration() const {
  if (configuration_ == 0 || answer_.configuration == 0 || configuration_ == answer_.configuration) return;
  throw ConfigError("configuration", fmt::format("rank {}", run_.rank()),
                    "it was restarted with a configuration that differs from that of the servers",
                    "do not change a configuration file during its run");
}

void PushWorker::tell(const PushHeader& header) {
  const std::vector<bool>& present = engine_.half_steps().present();
  std::vector<std::byte> message(sizeof header + mask_bytes(present.size()));
  std::memcpy(message.data(), &header, sizeof header);
  pack_mask(present, std::span(message).subspan(sizeof header));
  send_message(run_, message, 0);
}

StepReport PushWorker::push(double lr, std::optional<double> loss) {
  const bool is_last = clock() + 1 >= end_;
  tell({.kind = is_last ? PushHeader::Kind::kLastPush : PushHeader::Kind::kPush,
        .has_loss = loss ? 1 : 0,
        .clock = clock(),
        .loss = loss.value_or(0),
        .lr = lr,
        .waited_seconds = run_.waited_seconds() - waited_});
  waited_ = run_.waited_seconds();
  const std::int64_t pushed = clock();
  const bool again = await_answer() == PushAnswer::Kind::kAgain;
  if (is_over_) return {};
  again ? drop_gradients() : push_gradients();
  if (!again) run_.note_step(pushed + 1);
  is_over_ = is_last && !again;
  if (!is_over_) await_answer();
  if (is_over_) return {.step = pushed + 1, .loss = loss.value_or(std::numeric_limits<double>::quiet_NaN())};
  take_weights();
  if (clock() >= end_) leave();  // a quorum reached the end without this worker
  return {.step = answer_.updates,
          .grad_norm = answer_.grad_norm,
          .skipped = answer_.skipped != 0,
          .reason = static_cast<SkipReason>(answer_.reason),
          .loss = answer_.loss};
}

void PushWorker::leave() {
  if (is_over_) return;
  if (!has_begun_) begin();
  if (!is_over_) tell({.kind = PushHeader::Kind::kLeave, .clock = clock()});
  is_over_ = true;
}

// Waits for servers without a limit: a server may evaluate meanwhile.
void PushWorker::push_gradients() {
  const auto send = [this](int index, const std::byte* gradient, DType dtype) {
    const Unit& unit = layout_.units()[static_cast<std::size_t>(index)];
    ZERO_CHECK(dtype == layout_.gradient_dtype(unit), "a gradient of {} goes to servers as another type", unit.name);
    for (int server = 0; server < layout_.servers(); ++server) send_part(unit, server, gradient);
  };
  engine_.half_steps().give_away(send, [this] {
    for (int server = 0; server < layout_.servers(); ++server) await_reader(run_, server);
  });
}

void PushWorker::send_part(const Unit& unit, int server, const std::byte* gradient) {
  const PushLayout::Part& part = layout_.part(unit, server);
  if (part.numel == 0) return;
  await_reader(run_, server, part.together ? most_unread(layout_.servers()) - 1 : 0);
  const auto size = static_cast<std::int64_t>(size_of(layout_.gradient_dtype(unit)));
  const std::span<const std::byte> bytes =
      part.together
          ? std::span(gradient + *part.together * size, static_cast<std::size_t>(layout_.gradient_bytes(unit, server)))
          : put_together(unit, server, gradient);
  run_.send(bytes, server, {.unit = unit.index}).wait();
}

// Copies the stretches into the server's block, whose last message the server has read.
std::span<const std::byte> PushWorker::put_together(const Unit& unit, int server, const std::byte* gradient) {
  std::byte* const block = blocks_[static_cast<std::size_t>(server)].data();
  const auto size = static_cast<std::int64_t>(size_of(layout_.gradient_dtype(unit)));
  for (const PushedStretch& stretch : layout_.stretches(unit, server))
    std::memcpy(block + stretch.shard * size, gradient + stretch.whole * size,
                static_cast<std::size_t>(stretch.numel * size));
  return {block, static_cast<std::size_t>(layout_.gradient_bytes(unit, server))};
}

void PushWorker::drop_gradients() {
  engine_.half_steps().give_away([](int, const std::byte*, DType) {}, [] {});
}

// Receives the weights that the answer announces.
void PushWorker::take_weights() {
  if (answer_.weights == PushAnswer::Weights::kNone) return;
  const bool all = answer_.weights == PushAnswer::Weights::kAll;
  if (all) take_shard_weights();
  for (const Unit& unit : layout_.units()) {
    if (!all && !unit.trainable) continue;
    for (int server = 0; server < layout_.servers(); ++server) take_part(unit, server);
  }
}

// Receives the weights of owners from the servers, which may have measured them before this process began.
void PushWorker::take_shard_weights() {
  if (layout_.weights().empty()) return;
  options_.shard_weights.resize(static_cast<std::size_t>(layout_.servers()));
  Work work = run_.receive(std::as_writable_bytes(std::span(options_.shard_weights)), 0, {.control = true});
  await_message(run_, work, 0);
  layout_ = PushLayout(engine_.specs(), options_);
}

void PushWorker::take_part(const Unit& unit, int server) {
  const PushLayout::Part& part = layout_.part(unit, server);
  if (part.numel == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(unit.dtype));
  std::byte* const whole = engine_.half_steps().whole_parameter(unit.index);
  std::byte* const to =
      part.together ? whole + *part.together * size : blocks_[static_cast<std::size_t>(server)].data();
  Work work =
      run_.receive({to, static_cast<std::size_t>(layout_.weight_bytes(unit, server))}, server, {.unit = unit.index});
  await_message(run_, work, server);
  if (part.together) return;
  for (const PushedStretch& stretch : layout_.stretches(unit, server))
    std::memcpy(whole + stretch.whole * size, to + stretch.shard * size,
                static_cast<std::size_t>(stretch.numel * size));
}

}  // namespace zero
