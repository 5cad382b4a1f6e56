#include "zero/torch/pipeline/pipeline_evaluation.h"

#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "zero/comm/collectives.h"
#include "zero/torch/pipeline/forward/absent_tensor.h"
#include "zero/torch/pipeline/pass/section_pass.h"
#include "zero/torch/pipeline/pass/step_buffers.h"
#include "zero/torch/pipeline/pass/step_generator.h"

namespace zero {
namespace {

constexpr std::size_t kMostPlans = 32;

// One forward pass through each section, in the order of sections.
PipelinePlan forward_passes(const PipelinePlan& training) {
  PipelinePlan plan{.ranks = training.ranks, .micros = 1, .rank_of_section = training.rank_of_section, .passes = {}};
  for (int position = 0; position < plan.ranks; ++position) {
    std::vector<Pass>& passes = plan.passes.emplace_back();
    for (const int section : plan.sections_of(position)) passes.push_back({PassKind::kForward, 0, section});
  }
  return plan;
}

}  // namespace

PipelineEvaluation::PipelineEvaluation(const ModuleParameters& parameters, Communicator& run, const PipelineGrid& grid,
                                       Communicator& line_comm, const PipelinePlan& training, const Sections& sections,
                                       SharedOwner shared)
    : parameters_(parameters),
      run_(run),
      grid_(grid),
      line_comm_(line_comm),
      training_(training),
      sections_(sections),
      shared_(std::move(shared)) {}

std::unique_ptr<PipelineEvaluation::Plan> PipelineEvaluation::learn(const ForwardResults& function) const {
  auto learned = std::make_unique<Plan>();
  std::vector<at::Tensor> results;
  learned->forward = learn_evaluation(parameters_, sections_, [&] { return results = function(); });
  learned->forward.sections = follow_sections(learned->forward.graph, sections_);
  for (const at::Tensor& result : results) {
    const std::optional<int> value = result.defined() ? absent_value(result) : std::nullopt;
    learned->sections_of_results.push_back(value ? learned->forward.section_of_value(*value) : kEverywhere);
  }
  learned->passes = forward_passes(training_);
  learned->crossings = std::make_unique<Crossings>(run_, grid_, learned->passes, learned->forward);
  return learned;
}

PipelineEvaluation::Plan& PipelineEvaluation::plan_for(const EvaluationKey& key, const ForwardResults& function) {
  if (const auto known = plans_.find(key); known != plans_.end()) {
    std::erase(used_, key);
    used_.push_back(key);
    return *known->second;
  }
  std::unique_ptr<Plan> learned = learn(function);
  if (plans_.size() == kMostPlans) {
    plans_.erase(used_.front());
    used_.erase(used_.begin());
  }
  used_.push_back(key);
  return *(plans_[key] = std::move(learned));
}

at::Tensor PipelineEvaluation::share(const at::Tensor& mine, int position) const {
  const c10::AutoGradMode no_gradients(false);
  const bool have_it = position == grid_.position;
  at::Tensor values =
      have_it ? with_own_bytes(mine).contiguous() : at::empty(mine.sizes(), at::TensorOptions().dtype(mine.dtype()));
  broadcast(line_comm_, {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()}, position,
            {.control = true});
  return values;
}

std::vector<at::Tensor> PipelineEvaluation::run(const std::optional<EvaluationKey>& key, const ForwardResults& function,
                                                bool& broken) {
  const std::unique_ptr<Plan> own = key ? nullptr : learn(function);
  Plan& plan = key ? plan_for(*key, function) : *own;
  broken = true;
  const Crossings::Step step(*plan.crossings);
  std::vector<at::Tensor> results(plan.sections_of_results.size());
  StepGenerator generator(plan.forward.draws(), /*micros=*/1, line_comm_);
  StepBuffers buffers(parameters_.buffers, plan.forward, /*micros=*/1);
  for (const Pass& pass : plan.passes.passes[static_cast<std::size_t>(grid_.position)]) {
    SectionPass section(plan.forward, *plan.crossings, pass.section, 0, shared_(pass.section));
    generator.begin(0);
    buffers.begin(0);
    const std::vector<at::Tensor> of_section = section.evaluate(function);
    buffers.end(0);
    generator.end(0);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (!results[i].defined() || plan.sections_of_results[i] == pass.section) results[i] = of_section.at(i);
  }
  generator.end_step();
  plan.crossings->end_step();
  buffers.end_step(line_comm_, plan.passes.rank_of_section);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int section = plan.sections_of_results[i];
    if (section == kEverywhere) continue;
    results[i] = share(results[i], plan.passes.rank_of_section[static_cast<std::size_t>(section)]);
  }
  broken = false;
  return results;
}

}  // namespace zero
