#include "zero/serve/push_worker.h"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/comm/arrivals.h"

namespace zero {
namespace {

void refuse(std::string_view key, std::string_view value, std::string_view reason, std::string_view remedy) {
  throw ConfigError(key, value, reason, remedy);
}

void require_served(const EngineOptions& options) {
  if (options.local)
    refuse("sync.servers", fmt::format("{}", options.sync.servers), "copies that train apart (local) have no servers",
           "leave one of the two out");
  if (options.group != 0)
    refuse("zero.group", fmt::format("{}", options.group), "with servers the model is held once, by the servers",
           "leave it out, or leave out sync.servers");
  if (options.stage != 3)
    refuse("zero.stage", fmt::format("{}", options.stage), "servers split parameters, too, and workers hold no states",
           "use 3, or leave out sync.servers");
  if (options.delayed_update)
    refuse("zero.delayed_update", "true", "servers update each clock before the next",
           "leave it out; sync.mode stale lets workers go on meanwhile");
  if (options.dtype == DType::kFloat16 || options.loss_scale)
    refuse("train.dtype", "fp16", "workers would need one loss scale, and servers have none for them",
           "use bf16 or fp32, or leave out sync.servers");
}

}  // namespace

EngineOptions server_options(EngineOptions options) {
  require_served(options);
  options.accumulate = 1;  // workers sum their micro-batches
  options.reduce = Reduce::kAuto;
  return options;
}

EngineOptions worker_options(EngineOptions options) {
  require_served(options);
  options.stage = 0;
  options.updated_elsewhere = true;
  options.ema = 0;
  options.offload = {};
  options.clip = 0;
  return options;
}

void require_arrivals(Communicator& run) {
  if (run.arrivals() == nullptr)
    refuse("comm.transport", run.transport(), "a server cannot wait for whichever worker comes first over it",
           "attach to all ranks of the run, or leave out sync.servers");
  if (run.world() > kMaxBoardRanks)
    refuse("sync.servers", fmt::format("{} ranks", run.world()),
           "servers and workers are too many for one set of ranks",
           fmt::format("use at most {} ranks, or leave out sync.servers", kMaxBoardRanks));
}

PushWorker::PushWorker(Engine& engine, Communicator& run, const EngineOptions& options)
    : engine_(engine), run_(run), layout_(engine.units(), options) {}

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
                    "it was started again, and its configuration is not that of the servers any more",
                    "do not change a configuration file while its run goes on");
}

void PushWorker::tell(const PushHeader& header) {
  const std::vector<bool>& present = engine_.served().present();
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
  if (clock() >= end_) leave();  // a quorum has come to the end without it
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

// A server that evaluates meanwhile is not late.
void PushWorker::push_gradients() {
  const int most = most_unread(layout_.servers());
  const auto send = [this, most](int index, const std::byte* gradient, DType dtype) {
    const Unit& unit = layout_.units()[static_cast<std::size_t>(index)];
    ZERO_CHECK(dtype == layout_.gradient_dtype(unit), "a gradient of {} goes to servers as another type", unit.name);
    for (int server = 0; server < layout_.servers(); ++server) {
      const Shard part = layout_.part(unit, server);
      if (part.numel == 0) continue;
      await_reader(run_, server, most - 1);
      run_.send({gradient + part.offset * static_cast<std::int64_t>(size_of(dtype)),
                 static_cast<std::size_t>(layout_.gradient_bytes(unit, server))},
                server, {.unit = index})
          .wait();
    }
  };
  engine_.served().give_away(send, [this] {
    for (int server = 0; server < layout_.servers(); ++server) await_reader(run_, server);
  });
}

void PushWorker::drop_gradients() {
  engine_.served().give_away([](int, const std::byte*, DType) {}, [] {});
}

// What the answer says that it comes with.
void PushWorker::take_weights() {
  if (answer_.weights == PushAnswer::Weights::kNone) return;
  const bool all = answer_.weights == PushAnswer::Weights::kAll;
  for (const Unit& unit : layout_.units()) {
    if (!all && !unit.trainable) continue;
    for (int server = 0; server < layout_.servers(); ++server) {
      const Shard part = layout_.part(unit, server);
      if (part.numel == 0) continue;
      std::byte* const to =
          engine_.served().whole_parameter(unit.index) + part.offset * static_cast<std::int64_t>(size_of(unit.dtype));
      Work work = run_.receive({to, static_cast<std::size_t>(layout_.weight_bytes(unit, server))}, server,
                               {.unit = unit.index});
      await_message(run_, work, server);
    }
  }
}

}  // namespace zero
