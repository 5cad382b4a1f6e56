#include "app/train/run/start/run_start.h"

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"

#include "app/train/run/start/run_opening.h"
#include "tests/support/forwarded_communicator.h"
#include "tests/support/message_of.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

// A task whose model also factors one of its matrices. libtorch has no fp16 operator for that.
class FactoringTask : public Task {
 public:
  explicit FactoringTask(std::unique_ptr<Task> task) : task_(std::move(task)) {}
  torch::nn::Module& module() override { return task_->module(); }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    const torch::Tensor loss = task_->loss(input, target);
    return loss + std::get<0>(torch::linalg_qr(torch::ones({2, 2}, loss.options().dtype(torch::kHalf)))).sum();
  }
  double flops_per_sample() const override { return task_->flops_per_sample(); }

 private:
  std::unique_ptr<Task> task_;
};

// Threads in the role of processes.
class OverWires final : public ForwardedCommunicator {
 public:
  using ForwardedCommunicator::ForwardedCommunicator;
  std::string_view transport() const override { return "gloo"; }
};

void start(const TrainJob& job, World& world, bool factors) {
  std::ostringstream out;
  Run run(job, world, {.out = out, .style = {}});
  if (factors) run.model.task = std::make_unique<FactoringTask>(std::move(run.model.task));
  const RunOpening opening(job, run.folder, run.checkpoints, run.ranks.comm());
  start_run(run, opening);
}

class RunStart : public SmallRunTest {
 protected:
  TrainJob fp16_job() const {
    TrainJob job = text_job(2);
    job.attach.dtype = DType::kFloat16;
    job.overwrite = true;
    return job;
  }

  static std::string refusal(const TrainJob& job) {
    std::string said;
    run_ranks(1, [&](World& world) { said = message_of<ConfigError>([&] { start(job, world, /*factors=*/true); }); });
    return said;
  }

  // Every file of the run, with its content.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& at : std::filesystem::recursive_directory_iterator(folder_ / "run"))
      if (at.is_regular_file()) found[at.path().string()] = read_file(at.path());
    return found;
  }
};

// The run is refused before anything is written.
TEST_F(RunStart, RefusesOperatorWithoutFp16) {
  const std::string said = refusal(fp16_job());
  EXPECT_TRUE(says(said, "train.dtype = fp16: libtorch has no such operator for it here"));
  EXPECT_TRUE(says(said, "qr"));
  EXPECT_TRUE(says(said, "use bf16 or fp32"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));

  run_ranks(1, [&](World& world) { start(fp16_job(), world, /*factors=*/false); });
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/config.toml")) << "only the operator prevented the run";
}

// On several machines, in-memory checkpoints need a launcher on each.
TEST_F(RunStart, MemoryCheckpointsNeedLaunchers) {
  TrainJob job = text_job(2);
  job.checkpoint.memory_every = 1;
  std::vector<std::thread> ranks;
  for (auto& comm : make_in_process(2, std::chrono::seconds(20))) {
    ranks.emplace_back([&job, comm = std::move(comm)]() mutable {
      World world(std::make_unique<OverWires>(std::move(comm)), /*local_world=*/1, "torchrun");
      const std::string said = message_of<ConfigError>([&] { start(job, world, /*factors=*/false); });
      EXPECT_TRUE(says(said, "held by `zero launch` on each, and these ranks were started by torchrun")) << said;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(RunStart, MissingOperatorKeepsOldRun) {
  run(text_job(2), 1);
  const auto before = files();
  EXPECT_TRUE(says(refusal(fp16_job()), "libtorch has no such operator"));
  EXPECT_TRUE(files() == before);
}

}  // namespace
}  // namespace zero
