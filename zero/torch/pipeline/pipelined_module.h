// PipelinedModule: the sections of one model on this rank; the implementation of PipelineEngine.
//
// Each section is an AttachedModule of its own, with the parameters whose home it is, over the ranks of its position.
// So stages, placements and tiers work within a section as they do without a pipeline. A section's engine sees its
// passes in the order of micro-batches. Parameters of other positions are absent tensors. step() adds the verdicts of
// all sections before any engine updates.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "zero/base/process/fork_mark.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/torch/attached_module.h"
#include "zero/torch/pipeline/attach_pipeline.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/pass/crossings.h"
#include "zero/torch/pipeline/pass/section_pass.h"
#include "zero/torch/pipeline/pipeline_checkpoints.h"
#include "zero/torch/pipeline/pipeline_evaluation.h"

namespace zero {

struct PipelineSeconds {
  double forward = 0;
  double backward = 0;
};

class PipelinedModule {
 public:
  using LossOfMicro = PipelineEngine::LossOfMicro;
  using Visit = std::function<void(const std::string& name, const torch::Tensor& tensor)>;

  PipelinedModule(ModelTensors model, World& world, const AttachOptions& options, const PipelineOptions& pipeline);
  ~PipelinedModule();
  PipelinedModule(const PipelinedModule&) = delete;
  PipelinedModule& operator=(const PipelinedModule&) = delete;

  std::vector<double> passes(const LossOfMicro& loss, double parts);
  void prepare(const LossOfMicro& loss);
  std::vector<at::Tensor> evaluate(const std::optional<EvaluationKey>& key, const ForwardResults& function);
  // Collective. As Engine::averaged().
  AveragedScope averaged();
  StepReport step(const StepRates& rates, const StepLimits& limits);
  // Collective. Drops all gradients and passes of the running step; no-op before the first passes().
  void discard_gradients();
  double learning_rate() const;
  void for_each_parameter(const Visit& visit, bool full_precision);
  // Collective. Visits the parameter with number `first` in the order of names. Returns the number of the next, or 0.
  std::size_t visit_some(std::size_t first, const Visit& visit, bool full_precision);
  void export_weights(const std::filesystem::path& path, bool full_precision, const std::set<std::string>& left_out);
  void save(const std::filesystem::path& path, SaveContents contents);
  // Collective, between steps. End the save before detach().
  std::unique_ptr<RunningSave> begin_save(const std::filesystem::path& path, SaveContents contents, SaveMode mode);
  LoadedCheckpoint load(const std::filesystem::path& path);
  // Collective. The units are those of the sections' engines; the ranks are those of the run.
  ReplicaCheck compare_replicas();
  void detach();
  // Local. While an exception unwinds, or after abandon(), parameters stay empty.
  void abandon();

  // Local. Seconds of forward and backward passes since the last call, with their waits for other sections.
  PipelineSeconds take_seconds() { return std::exchange(seconds_, {}); }
  WorkSeconds take_work_seconds();
  EngineReport report() const;
  const std::vector<ParamSpec>& specs() const { return parameters_.specs; }
  const PipelineGrid& grid() const { return grid_; }
  const Sections& sections() const { return forward_.sections; }
  const PipelinePlan& plan() const { return plan_; }
  std::string text() const;
  // Local. Whether this process was forked since the model was attached.
  bool in_child() const { return made_here_.in_child(); }

 private:
  using OpenPasses = std::map<std::pair<int, int>, std::unique_ptr<SectionPass>>;  // by section and micro-batch

  void attach_sections(const LossOfMicro& loss);
  void require_same_plan() const;
  void require_simple_functions() const;
  void share_first_values();
  void open_groups();
  ModelTensors tensors_of_section(int section) const;
  double share_of_rank(int section) const;
  void leave_absent();
  std::vector<double> plain_passes(const LossOfMicro& loss, double parts);
  void run_forward(const Pass& pass, const LossOfMicro& loss, OpenPasses& open, std::vector<double>& losses);
  void run_backward(const Pass& pass, OpenPasses& open, SharedGradients& shared, double parts);
  void run_weights(const Pass& pass, OpenPasses& open);
  void require_attached(std::string_view call) const;
  void begin(const Pass& pass);
  double loss_scale() const;
  void share_losses(std::vector<double>& losses) const;
  void add_other_positions(StepSync& verdict, const StepRates& rates) const;
  AttachedModule* module_of(int section) const { return modules_[static_cast<std::size_t>(section)].get(); }
  // The module with the parameters that a section shares with the lookup section; null: none, or it is that section.
  AttachedModule* lookup_for(int section) const;
  int position_of(int section) const { return plan_.rank_of_section[static_cast<std::size_t>(section)]; }
  // The rank from which all others take the values of a section.
  int first_rank_of(int section) const { return position_of(section) * grid_.data_ranks; }
  int section_of_loss() const { return forward_.section_of_value(forward_.graph.loss); }
  std::vector<int> params_of(int section) const;  // in the order of names

  ModelTensors model_;
  World& world_;
  const PipelineOptions pipeline_;
  const PipelineGrid grid_;
  const AttachOptions options_;  // accumulate and reduce follow from leaves
  const ModuleParameters parameters_;
  PipelinePlan plan_;
  PassOrder order_ = PassOrder::kOneForwardOneBackward;
  std::string choice_;  // table of the orders that were considered; empty: the user named the order
  std::vector<std::string> notes_;
  ForwardPlan forward_;
  std::unique_ptr<Communicator> line_comm_;     // the ranks of this line
  std::vector<std::unique_ptr<World>> worlds_;  // by section: the ranks of its position; null: another position
  std::vector<std::unique_ptr<AttachedModule>> modules_;
  std::unique_ptr<Crossings> crossings_;
  std::unique_ptr<PipelineEvaluation> evaluation_;
  std::unique_ptr<PipelineCheckpoints> checkpoints_;
  PipelineSeconds seconds_;
  std::int64_t crossed_bytes_ = 0;  // that this rank has sent in the last step
  // While parameters are visited: each section's next parameter, and values that wait for their turn.
  std::vector<std::size_t> next_of_section_;
  std::map<std::string, torch::Tensor> waiting_;
  ForkMark made_here_;
  int exceptions_at_start_ = 0;
  bool attached_ = false;
  bool broken_ = false;  // an exception ended passes(): messages of them may be under way
};

}  // namespace zero
