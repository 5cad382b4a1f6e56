// PipelineEvaluation: forward passes without gradients through all sections of a model.
//
//   PipelineEvaluation evaluation(parameters, run, line, line_comm, training_plan, training_sections, shared);
//   std::vector<at::Tensor> results = evaluation.run(key, [&] { return std::vector{loss_of(model->forward(x), y)}; });
//
// The first run with a key learns its operators, as the first passes() does. The home of a parameter computes the
// operators that use it (follow_sections()). Later runs with this key must run the same operators on the same sizes.
// The plans of the 32 most recently used keys are kept. Results are broadcast to every rank of the line. Collective
// over the run, because a section may gather parameters from the ranks of its position. If each rank holds parameters
// whole, Collective only over the line. Throws what learn_evaluation() and follow_sections() throw.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/pass/crossings.h"
#include "zero/torch/seam/parameter_storage.h"

namespace zero {

using EvaluationKey = std::vector<std::int64_t>;  // such as the sizes of the inputs

class PipelineEvaluation {
 public:
  // Returns the owner of the lookup section's parameters for another section that also uses them; else null.
  using SharedOwner = std::function<const ParameterOwner*(int section)>;

  // All arguments must outlive the object.
  PipelineEvaluation(const ModuleParameters& parameters, Communicator& run, const PipelineGrid& grid,
                     Communicator& line_comm, const PipelinePlan& training, const Sections& sections,
                     SharedOwner shared);

  // Without a key each run learns the operators. `broken`: becomes true before the passes and false after them, so an
  // exception in a pass leaves it true.
  std::vector<at::Tensor> run(const std::optional<EvaluationKey>& key, const ForwardResults& function, bool& broken);

 private:
  struct Plan {
    ForwardPlan forward;
    PipelinePlan passes;
    std::unique_ptr<Crossings> crossings;
    std::vector<int> sections_of_results;  // that compute them; kEverywhere: every rank does
  };
  std::unique_ptr<Plan> learn(const ForwardResults& function) const;
  Plan& plan_for(const EvaluationKey& key, const ForwardResults& function);
  at::Tensor share(const at::Tensor& mine, int position) const;

  const ModuleParameters& parameters_;
  Communicator& run_;
  const PipelineGrid grid_;
  Communicator& line_comm_;
  const PipelinePlan& training_;
  const Sections& sections_;
  SharedOwner shared_;
  std::map<EvaluationKey, std::unique_ptr<Plan>> plans_;
  std::vector<EvaluationKey> used_;  // the keys of `plans_`; the most recently used key is the last
};

}  // namespace zero
