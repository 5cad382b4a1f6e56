// train_pipelined(): a short training run over the lines of a pipeline. Records everything that must equal a run
// without a pipeline.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/torch/training_run.h"

namespace zero::tests {

struct PipelinedRun {
  std::vector<double> losses;  // of every micro-batch of every step
  std::vector<double> grad_norms;
  std::map<std::string, torch::Tensor> parameters;
  std::vector<torch::Tensor> given_back;  // in registration order, after the attachment ended
  std::string text;                       // text of the plan
};

// Runs before the passes of each step.
using BeforeStep = std::function<void(PipelineEngine& engine, Subject& subject, int step, int line)>;

// Runs one rank. The losses are those of its line; `given_back` has its own parameters.
inline PipelinedRun train_rank(World& ranks, Subject& subject, int num_steps, const AttachOptions& options,
                               const PipelineOptions& pipeline, double lr = 1e-2, const BeforeStep& before = {}) {
  PipelinedRun result;
  const int data_rank = ranks.rank() % (ranks.size() / pipeline.pipeline);
  {
    PipelineEngine engine = attach_pipeline(*subject.module, ranks, options, pipeline);
    for (int step = 0; step < num_steps; ++step) {
      if (before) before(engine, subject, step, data_rank);
      const std::vector<double> losses =
          engine.passes([&](int micro) { return subject.loss(step, micro, data_rank) / options.accumulate; });
      result.losses.insert(result.losses.end(), losses.begin(), losses.end());
      result.grad_norms.push_back(engine.step(lr).grad_norm);
    }
    result.text = engine.text();
    engine.for_each_parameter(
        [&](const std::string& name, const torch::Tensor& tensor) { result.parameters[name] = tensor.clone(); });
  }
  for (const torch::Tensor& parameter : subject.module->parameters())
    result.given_back.push_back(parameter.detach().clone());
  return result;
}

// Runs every rank in its own thread, with subjects as in train(). Returns the run of the last rank of the line of data
// rank 0.
inline PipelinedRun train_pipelined(int world, int num_steps, const AttachOptions& options,
                                    const PipelineOptions& pipeline, const MakeSubject& make, double lr = 1e-2,
                                    const BeforeStep& before = {}) {
  std::vector<Subject> subjects;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(7 + rank);  // only rank 0's weights count
    subjects.push_back(make());
  }
  std::vector<PipelinedRun> runs(static_cast<std::size_t>(world));
  on_every_rank(world, [&](World& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    runs[rank] = train_rank(ranks, subjects[rank], num_steps, options, pipeline, lr, before);
  });
  return runs[static_cast<std::size_t>(world - world / pipeline.pipeline)];
}

inline void expect_same_bits(const PipelinedRun& run, const PipelinedRun& expected) {
  EXPECT_NE(expected.losses.front(), expected.losses.back()) << "nothing was trained";
  EXPECT_EQ(run.losses, expected.losses);
  EXPECT_EQ(run.grad_norms, expected.grad_norms);
  ASSERT_EQ(run.parameters.size(), expected.parameters.size());
  for (const auto& [name, tensor] : expected.parameters)
    EXPECT_TRUE(torch::equal(run.parameters.at(name), tensor)) << name;
  ASSERT_EQ(run.given_back.size(), expected.given_back.size());
  for (std::size_t i = 0; i < expected.given_back.size(); ++i)
    EXPECT_TRUE(torch::equal(run.given_back[i], expected.given_back[i])) << "parameter " << i;
}

}  // namespace zero::tests
