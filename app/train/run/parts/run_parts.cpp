#include "app/train/run/parts/run_parts.h"

#include <numeric>
#include <vector>

#include "zero/comm/group.h"
#include "zero/device/open_device.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/torch/seam/torch_device.h"

#include "app/data/data_mark.h"
#include "app/train/tasks/model_kind.h"

namespace zero {
namespace {

DType dtype_of(const TrainJob& job) {
  return job.attach.dtype.value_or(DType::kFloat32);
}

std::unique_ptr<Communicator> open_servers(const TrainJob& job, World& world) {
  if (!job.attach.sync.has_servers()) return nullptr;
  std::vector<int> ranks(static_cast<std::size_t>(job.attach.sync.servers));
  std::iota(ranks.begin(), ranks.end(), 0);
  return open_group(world.communicator(), ranks, "the run's servers");
}

// The ranks of a line compute the same samples.
SampleShares shares_of(const TrainJob& job, const Communicator& comm) {
  const PipelineGrid grid = pipeline_grid_of(comm.rank(), comm.world(), job.pipeline.pipeline);
  return {job.train.share, job.train.batch, grid.data_ranks, grid.data_rank};
}

std::optional<LearnedActivations> learned_activations(const TrainJob& job, const RunRanks& ranks,
                                                      const SampleShape& shape) {
  if (ranks.device->host_readable() || job.attach.device_memory.kind != MemoryBudget::Kind::kAuto) return std::nullopt;
  const std::filesystem::path& file = ranks.seams.learned;
  return LearnedActivations(
      activation_work(job.model, shape, job.train.batch, dtype_of(job), gpu_name(ranks.device->name())),
      file.empty() ? LearnedActivations::default_path() : file);
}

ProgressStyle style_on(ProgressStyle style, const RunRanks& ranks) {
  style.silent = style.silent || !ranks.is_first();
  return style;
}

// With a pipeline the ranks at the first position have all losses. With leaves every rank has the step's loss. 0: all
// ranks have losses of their own.
int averaged_in_history(const TrainJob& job, int num_computing) {
  if (job.train.leaves > 0) return 1;
  return job.pipeline.pipeline > 1 ? num_computing : 0;
}

ServedReport served_report(const SyncPlan& sync, int num_computing) {
  if (!sync.has_servers()) return {};
  return {.mode = std::string(name_of(sync.mode)),
          .servers = sync.servers,
          .workers = num_computing,
          .staleness = sync.staleness,
          .quorum = sync.quorum};
}

}  // namespace

RunRanks::RunRanks(const TrainJob& job, World& ranks, const TrainSeams& in_place)
    : world(ranks),
      seams(in_place),
      servers(open_servers(job, world)),
      device(seams.open_device ? seams.open_device(job.device) : open_device(job.device)),
      num_computing(job.attach.sync.num_workers(world.size()) / job.pipeline.pipeline) {}

RunData::RunData(const TrainJob& job, const Communicator& comm)
    : corpus(open_corpus(job)), mark(data_mark(corpus)), shares(shares_of(job, comm)) {}

RunModel::RunModel(const TrainJob& job, const RunRanks& ranks, const SampleShape& shape)
    : task(make_task(job.model, shape, job.train.seed)),
      torch_memory(place_of(*ranks.device), ranks.seams.held_by_torch, learned_activations(job, ranks, shape)) {
  task->compute_on(place_of(*ranks.device));
}

RunRecords::RunRecords(const TrainJob& job, const RunRanks& ranks, Task& task, const RunFolder& folder,
                       const TrainOutput& output)
    : meter(task.activations(), job.attach.threads, place_of(*ranks.device), dtype_of(job)),
      progress(output.out, style_on(output.style, ranks), job.train.steps, task.has_tokens() ? "tok/s" : "rows/s"),
      log(folder, progress,
          StepHistory(job.train.log_every, job.train.steps, averaged_in_history(job, ranks.num_computing)),
          TimeLeft(job.train.steps, {.every = job.train.eval_every,
                                     .last_alike = job.train.eval_batches == 0,
                                     .compares = watched_measure(job).has_value()}),
          ranks.comm()),
      served(served_report(job.attach.sync, ranks.num_computing)) {}

}  // namespace zero
