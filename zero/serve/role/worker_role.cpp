#include "zero/serve/role/worker_role.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"
#include "zero/device/device.h"

namespace zero {

WorkerRole::WorkerRole(Communicator& run, const AttachOptions& options)
    : ServedRole(run, options, worker_options(options), "a worker", {run.rank()}) {}

Communicator& WorkerRole::comm_of_buffers() {
  return is_replacement(run()) ? comm() : run();
}

void WorkerRole::refuse_device(const Device& device) const {
  if (device.host_readable()) return;
  throw ConfigError(
      "sync.servers", "",
      fmt::format("a worker with servers does not work on a device that the host cannot read ({})", device.name()),
      "leave it out, or train on the CPU");
}

void WorkerRole::attach(RankEngine& engine) {
  RankRole::attach(engine);
  worker_.emplace(engine, run(), asked());
  if (asked().sync.spares_workers()) run().arrivals()->may_be_lost();
}

void WorkerRole::release() {
  worker_.reset();
  RankRole::release();
}

void WorkerRole::begin() {
  if (worker_ && !worker_->has_begun()) worker_->begin();
}

void WorkerRole::require_step(const StepRates& rates, const StepLimits& limits) const {
  if (limits.fewer_micro_batches)
    throw ConfigError("step", "fewer_micro_batches", "servers divide by the micro-batches of a whole step",
                      "drop the short group with discard_gradients(), or leave out sync.servers");
  if (!rates.by_group.empty() || !rates.decay_by_group.empty())
    throw ConfigError("step", rates.by_group.empty() ? "decay_by_group" : "by_group",
                      "a worker sends servers one learning rate", "set lr_scale and weight_decay of options.groups");
  if (const int written = engine().writes().first_changed(); written >= 0)
    throw ConfigError("attach", engine().specs()[static_cast<std::size_t>(written)].name,
                      "a worker wrote into this parameter, but its values belong to the servers (sync.servers)",
                      "write before attach(), or use no servers");
}

StepReport WorkerRole::step(const StepRates& rates, const StepLimits& limits) {
  require_step(rates, limits);
  return worker_->push(rates.lr, limits.loss);
}

void WorkerRole::leave() {
  if (worker_) worker_->leave();
}

PushWorker* worker_of(RankRole& role) {
  auto* const of_worker = dynamic_cast<WorkerRole*>(&role);
  return of_worker == nullptr ? nullptr : of_worker->worker();
}

}  // namespace zero
