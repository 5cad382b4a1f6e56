#include "zero/torch/pipeline/pipelined_module.h"

#include <algorithm>
#include <array>
#include <exception>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/numbers/number_range.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/timeline.h"
#include "zero/comm/collectives.h"
#include "zero/comm/group.h"
#include "zero/engine/options/leaf_options.h"
#include "zero/engine/options/option_numbers.h"
#include "zero/serve/role/make_role.h"
#include "zero/torch/attached/first_values.h"
#include "zero/torch/deferred/deferred.h"
#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/pipeline/agree_passes.h"
#include "zero/torch/pipeline/forward/held_layouts.h"
#include "zero/torch/pipeline/forward/operator_timer.h"
#include "zero/torch/pipeline/joined_report.h"
#include "zero/torch/pipeline/pass/step_buffers.h"
#include "zero/torch/pipeline/pass/step_generator.h"
#include "zero/torch/pipeline/section_options.h"

namespace zero {
namespace {

std::span<std::byte> tensor_bytes(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

std::string hash_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

torch::Tensor scaled_loss(const torch::Tensor& loss, double scale) {
  if (scale == 1) return loss;
  const bool half = loss.scalar_type() == at::kHalf || loss.scalar_type() == at::kBFloat16;
  return (half ? loss.to(at::kFloat) : loss) * scale;
}

Activity activity_of(PassKind kind) {
  constexpr std::array<Activity, 4> kActivities{Activity::kForward, Activity::kBackward, Activity::kBackwardInputs,
                                                Activity::kBackwardWeights};
  return kActivities[static_cast<std::size_t>(kind)];
}

torch::Tensor part_of(const torch::Tensor& loss, double parts) {
  return parts == 1 ? loss : loss / parts;
}

}  // namespace

PipelinedModule::PipelinedModule(ModelTensors model, World& world, const AttachOptions& options,
                                 const PipelineOptions& pipeline)
    : model_(std::move(model)),
      world_(world),
      pipeline_(pipeline),
      grid_(pipeline_grid_of(world.rank(), world.size(), pipeline.pipeline)),
      options_(settle_leaves(options, grid_.data_ranks)),
      parameters_(parameters_of(model_, options.dtype)),
      exceptions_at_start_(std::uncaught_exceptions()) {
  require_numbers(options_);
  require_pipeline_numbers(pipeline_);
  if (grid_.pipeline > 1) {
    require_pipeline(pipeline_, options_.accumulate);
    require_pipeline_options(options_, parameters_.tensors);
    require_members(parameters_.specs, options_.groups);
    require_matrix(parameters_.specs, options_);
    return;
  }
  plan_ = build_pipeline(order_, 1, 1, options_.accumulate);
  AttachOptions whole = with_weights_of_owners(options_, world.communicator(), world.local_size());
  modules_.push_back(std::make_unique<AttachedModule>(model_, world, std::move(whole), EngineHost{}));
  attached_ = true;
}

PipelinedModule::~PipelinedModule() {
  if (!attached_) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    abandon();
    return;
  }
  try {
    detach();
  } catch (const std::exception& error) {
    ZERO_LOG(error, "parameters could not be given back: {}", error.what());
  }
}

void PipelinedModule::abandon() {
  for (const auto& module : modules_)
    if (module != nullptr) module->abandon();
  attached_ = false;
}

void PipelinedModule::require_attached(std::string_view call) const {
  made_here_.refuse_in_child(world_.rank());
  if (!attached_)
    throw ConfigError(call, "", "called before the first passes()", "call passes() with the loss of a micro-batch");
  if (broken_)
    throw ConfigError(call, "", "an exception ended passes() or evaluate(), and other ranks may still wait in it",
                      "end this rank, or load a checkpoint into a new engine");
}

void PipelinedModule::prepare(const LossOfMicro& loss) {
  if (!attached_) attach_sections(loss);
}

void PipelinedModule::attach_sections(const LossOfMicro& loss) {
  first_buffers(model_.buffers, options_.dtype, c10::kCPU, world_.communicator());  // operators may depend on them
  {
    const HeldLayouts layouts(parameters_);
    OperatorTimer timer;
    const bool measures = needs_seconds(pipeline_) && world_.rank() == 0;
    forward_ = learn_forward(
        parameters_, [&] { return loss(0); }, measures ? &timer : nullptr);
  }
  require_same_plan();
  PlannedPasses planned = agree_passes(forward_.graph, pipeline_, options_.accumulate, world_.communicator(), grid_);
  choice_ = order_table(planned);
  notes_ = notes_on(planned, world_.communicator().timeout());
  order_ = planned.order;
  plan_ = std::move(planned.plan);
  forward_.sections = std::move(planned.sections);
  require_simple_functions();
  share_first_values();
  open_groups();
  modules_.resize(static_cast<std::size_t>(plan_.num_sections()));
  const AttachOptions of_model = with_loss_scale(options_, parameters_.specs);
  bool any = false;
  for (int section = 0; section < plan_.num_sections(); ++section) {
    if (position_of(section) != grid_.position) continue;
    const ModelTensors tensors = tensors_of_section(section);
    if (tensors.parameters.empty()) continue;
    World& world = *worlds_[static_cast<std::size_t>(section)];
    modules_[static_cast<std::size_t>(section)] = std::make_unique<AttachedModule>(
        tensors, world,
        with_weights_of_owners(section_options(of_model, tensors, share_of_rank(section)), world.communicator(),
                               world.local_size()),
        EngineHost{.has_section = true});
    any = true;
  }
  ZERO_CHECK(any, "position {} has no parameter", grid_.position);
  leave_absent();
  Communicator& run = world_.communicator();
  crossings_ = std::make_unique<Crossings>(run, grid_, plan_, forward_, options_.timeline);
  evaluation_ = std::make_unique<PipelineEvaluation>(parameters_, run, grid_, *line_comm_, plan_, forward_.sections,
                                                     [this](int section) { return lookup_for(section); });
  std::vector<std::string> names;
  for (const ParamSpec& spec : parameters_.specs) names.push_back(spec.name);
  std::vector<int> homes;
  std::vector<AttachedModule*> modules;
  for (int section = 0; section < plan_.num_sections(); ++section) {
    modules.push_back(module_of(section));
    if (!params_of(section).empty()) homes.push_back(section);
  }
  checkpoints_ =
      std::make_unique<PipelineCheckpoints>(run, plan_, std::move(homes), std::move(names), std::move(modules));
  attached_ = true;
}

// A custom autograd function gives a parameter its gradient at once, and not to an alias of the parameter.
void PipelinedModule::require_simple_functions() const {
  for (const int param : forward_.params_of_functions) {
    const bool splits = splits_backward(order_);
    const bool is_shared =
        forward_.sections.has_lookup && forward_.sections.home_of_param[static_cast<std::size_t>(param)] == 0;
    if (!splits && !is_shared) continue;
    throw ConfigError("passes", parameters_.specs[static_cast<std::size_t>(param)].name,
                      fmt::format("a custom autograd function uses this parameter, and {}",
                                  splits ? fmt::format("the schedule {} makes its gradient later", name_of(order_))
                                         : "a lookup of tied parameters is in a section of its own"),
                      splits ? "use 1f1b, gpipe or interleaved" : "untie the parameters, or use parallel.pipeline = 1");
  }
}

// Throws on every rank if a rank runs another forward pass than rank 0.
void PipelinedModule::require_same_plan() const {
  Communicator& run = world_.communicator();
  const std::vector<std::string> lines = forward_.lines();
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>()(hash_text(lines)));
  const std::vector<std::int64_t> hashes = all_gather_value(run, hash);
  const auto differs = std::ranges::find_if(hashes, [&](std::int64_t other) { return other != hashes.front(); });
  if (differs == hashes.end()) return;
  const auto rank = static_cast<std::size_t>(differs - hashes.begin());
  const std::vector<std::string> texts = all_gather_text(run, hash_text(lines));
  const auto [theirs, first] = std::ranges::mismatch(texts[rank], texts.front());
  const auto line_around = [](const std::string& text, std::string::const_iterator at) {
    const auto offset = static_cast<std::size_t>(at - text.begin());
    const std::size_t begin = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    return line.empty() ? std::string("no further operator") : line;
  };
  throw ConfigError("passes", line_around(texts[rank], theirs),
                    fmt::format("rank {} runs this operator in its forward pass, and rank 0 {}", rank,
                                line_around(texts.front(), first)),
                    "run the same operators on the same sizes on every rank");
}

// Rank 0's values count, as in attach(). Deferred parameters depend only on their names.
void PipelinedModule::share_first_values() {
  const c10::AutoGradMode no_gradients(false);
  const auto share = [this](const torch::Tensor& tensor) {
    if (!tensor.defined() || is_deferred(tensor) || tensor.numel() == 0) return;
    const torch::Tensor values = tensor.detach().contiguous();
    broadcast(world_.communicator(), tensor_bytes(values), 0, {.control = true});
    if (!values.is_alias_of(tensor)) tensor.detach().copy_(values);
  };
  if (!options_.weights)
    for (const torch::Tensor& tensor : parameters_.tensors) share(tensor);
}

void PipelinedModule::open_groups() {
  Communicator& run = world_.communicator();
  line_comm_ = open_group(run, grid_.ranks_of_line(), fmt::format("line {}", grid_.data_rank));
  worlds_.resize(static_cast<std::size_t>(plan_.num_sections()));
  for (int section = 0; section < plan_.num_sections(); ++section) {
    const bool here = position_of(section) == grid_.position;
    auto group =
        open_group(run, here ? grid_.ranks_at(grid_.position) : std::vector<int>(), fmt::format("section {}", section));
    if (here) worlds_[static_cast<std::size_t>(section)] = std::make_unique<World>(std::move(group), world_);
  }
}

ModelTensors PipelinedModule::tensors_of_section(int section) const {
  ModelTensors tensors{.parameters = {}, .buffers = model_.buffers};
  const std::vector<int> params = params_of(section);
  for (const ModelTensors::Parameter& parameter : model_.parameters) {
    const bool here = std::ranges::any_of(params, [&](int param) {
      return parameters_.tensors[static_cast<std::size_t>(param)].is_same(parameter.tensor);
    });
    if (here) tensors.parameters.push_back(parameter);
  }
  return tensors;
}

// The section's parameters as a part of those of this rank's sections. A tied parameter counts once.
double PipelinedModule::share_of_rank(int section) const {
  std::int64_t own = 0, all = 0;
  for (std::size_t param = 0; param < parameters_.tensors.size(); ++param) {
    const int home = forward_.sections.home_of_param[param];
    if (home == section) own += parameters_.specs[param].numel();
    if (position_of(home) == grid_.position) all += parameters_.specs[param].numel();
  }
  return own == all ? 1 : static_cast<double>(own) / static_cast<double>(all);
}

std::vector<int> PipelinedModule::params_of(int section) const {
  std::vector<int> params;
  for (std::size_t param = 0; param < parameters_.specs.size(); ++param)
    if (forward_.sections.home_of_param[param] == section) params.push_back(static_cast<int>(param));
  std::ranges::sort(params, {}, [this](int param) { return parameters_.specs[static_cast<std::size_t>(param)].name; });
  return params;
}

// Frees the parameters of other positions.
void PipelinedModule::leave_absent() {
  const c10::AutoGradMode no_gradients(false);
  for (std::size_t param = 0; param < parameters_.tensors.size(); ++param) {
    if (position_of(forward_.sections.home_of_param[param]) == grid_.position) continue;
    replace_data(parameters_.tensors[param], absent_parameter(parameters_.specs[param]));
  }
}

AttachedModule* PipelinedModule::lookup_for(int section) const {
  const bool shares = section > 0 && forward_.sections.uses_lookup_params(section);
  return shares ? module_of(0) : nullptr;
}

std::vector<double> PipelinedModule::plain_passes(const LossOfMicro& loss, double parts) {
  std::vector<double> losses;
  AttachedModule& module = *modules_.front();
  for (int micro = 0; micro < options_.accumulate; ++micro) {
    module.steps().drop_zeroed();
    module.engine().begin_micro_batch(micro);
    const double begin = monotonic_seconds();
    const torch::Tensor value = loss(micro);
    losses.push_back(value.item<double>());
    const double middle = monotonic_seconds();
    scaled_loss(part_of(value, parts), module.engine().scale_loss()).backward();
    seconds_.forward += middle - begin;
    seconds_.backward += monotonic_seconds() - middle;
  }
  return losses;
}

std::vector<double> PipelinedModule::passes(const LossOfMicro& loss, double parts) {
  made_here_.refuse_in_child(world_.rank());
  require_number("passes(parts)", parts, kAboveZero, "use 1, or the number by which losses are divided");
  if (grid_.pipeline == 1) return plain_passes(loss, parts);
  prepare(loss);
  require_attached("passes");
  broken_ = true;
  const Crossings::Step step(*crossings_);
  std::vector<double> losses(static_cast<std::size_t>(options_.accumulate), 0);
  OpenPasses open;
  SharedGradients shared;
  StepGenerator generator(forward_.draws(), options_.accumulate, *line_comm_);
  StepBuffers buffers(parameters_.buffers, forward_, options_.accumulate);
  const std::int64_t sent_before = crossings_->sent_bytes();
  for (const Pass& pass : plan_.passes[static_cast<std::size_t>(grid_.position)]) {
    begin(pass);
    const bool is_forward = pass.kind == PassKind::kForward;
    const double begin = monotonic_seconds();
    const TimedSpan span(options_.timeline, activity_of(pass.kind), {pass.micro, pass.section});
    if (is_forward) {
      generator.begin(pass.micro);
      buffers.begin(pass.micro);
      run_forward(pass, loss, open, losses);
      buffers.end(pass.micro);
      generator.end(pass.micro);
    } else if (pass.kind == PassKind::kWeights) {
      run_weights(pass, open);
    } else {
      buffers.begin_backward(pass.micro);
      run_backward(pass, open, shared, parts);
    }
    (is_forward ? seconds_.forward : seconds_.backward) += monotonic_seconds() - begin;
  }
  generator.end_step();
  crossings_->end_step();
  buffers.end_step(*line_comm_, plan_.rank_of_section);
  crossed_bytes_ = crossings_->sent_bytes() - sent_before;
  share_losses(losses);
  broken_ = false;
  return losses;
}

std::vector<at::Tensor> PipelinedModule::evaluate(const std::optional<EvaluationKey>& key,
                                                  const ForwardResults& function) {
  require_attached("evaluate");
  if (grid_.pipeline > 1) return evaluation_->run(key, function, broken_);
  const c10::AutoGradMode no_gradients(false);
  return function();
}

void PipelinedModule::begin(const Pass& pass) {
  for (AttachedModule* const module : {module_of(pass.section), lookup_for(pass.section)}) {
    if (module == nullptr) continue;
    module->steps().drop_zeroed();
    module->engine().begin_micro_batch(pass.micro);
  }
}

void PipelinedModule::run_forward(const Pass& pass, const LossOfMicro& loss, OpenPasses& open,
                                  std::vector<double>& losses) {
  auto forward =
      std::make_unique<SectionPass>(forward_, *crossings_, pass.section, pass.micro, lookup_for(pass.section),
                                    splits_backward(order_) ? module_of(pass.section) : nullptr);
  forward->forward([&] { return loss(pass.micro); });
  if (forward->loss().defined()) losses[static_cast<std::size_t>(pass.micro)] = forward->loss().detach().item<double>();
  open[{pass.section, pass.micro}] = std::move(forward);
}

// All engines of the model have the same scale, and each rank has an engine.
double PipelinedModule::loss_scale() const {
  const auto found = std::ranges::find_if(modules_, [](const auto& module) { return module != nullptr; });
  return (*found)->engine().loss_scale();
}

void PipelinedModule::run_backward(const Pass& pass, OpenPasses& open, SharedGradients& shared, double parts) {
  const auto found = open.find({pass.section, pass.micro});
  ZERO_CHECK(found != open.end(), "{} without a forward pass", text_of(pass));
  SectionPass& section = *found->second;
  AttachedModule* const module = module_of(pass.section);
  AttachedModule* const lookup = lookup_for(pass.section);
  const double scale = module != nullptr ? module->engine().scale_loss() : loss_scale();
  const torch::Tensor loss =
      section.loss().defined() ? scaled_loss(part_of(section.loss(), parts), scale) : torch::Tensor();
  const bool split = pass.kind == PassKind::kInputs;
  std::vector<at::Tensor> leaves, leaf_gradients;
  if (forward_.sections.has_lookup && pass.section == 0) {
    for (auto& [key, gradient] : shared) {
      if (key.first != pass.micro) continue;
      leaves.push_back(module->parameters().tensor(key.second));
      leaf_gradients.push_back(std::move(gradient));
    }
    std::erase_if(shared, [&](const auto& entry) { return entry.first.first == pass.micro; });
  }
  // The lookup section's own backward pass of this micro-batch comes later, and so does a pass of weights.
  AttachedModule* const later = split ? module : nullptr;
  for (AttachedModule* const each : {lookup, later})
    if (each != nullptr) each->count_backward_as_forward(true);
  section.backward(loss, std::move(leaves), std::move(leaf_gradients));
  for (AttachedModule* const each : {lookup, later})
    if (each != nullptr) each->count_backward_as_forward(false);
  section.take_shared(shared);
  if (split) return;
  open.erase(found);
  if (module != nullptr) module->engine().begin_backward();  // a frozen section may have brought no gradient
}

// Gives the engine all gradients of the section's parameters at once, as one backward pass.
void PipelinedModule::run_weights(const Pass& pass, OpenPasses& open) {
  const auto found = open.find({pass.section, pass.micro});
  ZERO_CHECK(found != open.end(), "{} without a forward pass", text_of(pass));
  AttachedModule* const module = module_of(pass.section);
  std::map<int, at::Tensor> gradients = found->second->take_gradients();
  open.erase(found);
  if (module == nullptr) return;
  std::vector<at::Tensor> parameters, values;
  for (auto& [param, gradient] : gradients) {
    parameters.push_back(module->parameters().tensor(param));
    values.push_back(std::move(gradient));
  }
  if (!parameters.empty()) torch::autograd::backward(parameters, values);
  module->engine().begin_backward();
}

void PipelinedModule::share_losses(std::vector<double>& losses) const {
  broadcast(*line_comm_, std::as_writable_bytes(std::span(losses)), position_of(section_of_loss()), {.control = true});
}

AveragedScope PipelinedModule::averaged() {
  require_attached("averaged");
  std::vector<AttachedModule*> modules;
  for (const auto& module : modules_)
    if (module != nullptr) modules.push_back(module.get());
  return AveragedScope(std::move(modules));
}

void PipelinedModule::save(const std::filesystem::path& path, SaveContents contents) {
  begin_save(path, std::move(contents), SaveMode::kSync)->wait();
}

std::unique_ptr<RunningSave> PipelinedModule::begin_save(const std::filesystem::path& path, SaveContents contents,
                                                         SaveMode mode) {
  require_attached("save");
  if (grid_.pipeline > 1) return checkpoints_->begin_save(path, std::move(contents), mode);
  return modules_.front()->checkpoints().begin_save(path, std::move(contents), mode);
}

LoadedCheckpoint PipelinedModule::load(const std::filesystem::path& path) {
  require_attached("load");
  if (grid_.pipeline > 1) return checkpoints_->load(path);
  return modules_.front()->checkpoints_to_load().load(path, FileCalls::kernel());
}

WorkSeconds PipelinedModule::take_work_seconds() {
  WorkSeconds sum;
  for (const auto& module : modules_) {
    if (module == nullptr) continue;
    const WorkSeconds part = module->engine().take_work_seconds();
    sum.gather += part.gather;
    sum.reduce += part.reduce;
    sum.update += part.update;
    sum.wait += part.wait;
  }
  return sum;
}

EngineReport PipelinedModule::report() const {
  require_attached("report");
  std::vector<EngineReport> parts;
  for (const auto& module : modules_)
    if (module != nullptr) parts.push_back(module->engine().report());
  if (grid_.pipeline == 1) return parts.front();
  EngineReport whole = joined_report(parts);
  whole.world = world_.size();
  whole.rank = world_.rank();
  whole.num_parameters = 0;
  for (const ParamSpec& spec : parameters_.specs) whole.num_parameters += spec.numel();
  whole.sent_bytes_per_step += crossed_bytes_;
  const std::int64_t planned = crossings_->planned_bytes();
  whole.planned_sent_bytes += planned;
  whole.sent_formula_bytes += static_cast<double>(planned);
  whole.sent_by_codec.group.front() += crossed_bytes_;
  return whole;
}

void PipelinedModule::detach() {
  if (!std::exchange(attached_, false)) return;
  for (const auto& module : modules_)
    if (module != nullptr) module->detach();
  modules_.clear();
  if (grid_.pipeline == 1) return;
  const c10::AutoGradMode no_gradients(false);
  for (int section = 0; section < plan_.num_sections(); ++section) {
    for (const int param : params_of(section)) {
      const torch::Tensor& tensor = parameters_.tensors[static_cast<std::size_t>(param)];
      torch::Tensor values = position_of(section) == grid_.position
                                 ? tensor.detach().contiguous()
                                 : at::empty(tensor.sizes(), tensor.options().requires_grad(false));
      broadcast(world_.communicator(), tensor_bytes(values), first_rank_of(section), {.control = true});
      if (position_of(section) != grid_.position) replace_data(tensor, values);
    }
  }
}

std::string PipelinedModule::text() const {
  std::string text;
  const Sections& sections = forward_.sections;
  if (forward_.operators.empty()) return text;  // no pipeline, or not cut yet
  if (!choice_.empty()) text += choice_ + "\n";
  for (const std::string& note : notes_) text += "note: " + note + "\n";
  for (int section = 0; section < sections.count; ++section) {
    std::int64_t numel = 0;
    for (const int param : params_of(section)) numel += parameters_.specs[static_cast<std::size_t>(param)].numel();
    fmt::format_to(std::back_inserter(text), "section {} on rank {} of a line: {} operators, {} parameters{}\n",
                   section, position_of(section), std::ranges::count(sections.of_operator, section), numel,
                   sections.has_lookup && section == 0 ? ", lookups of tied parameters" : "");
  }
  for (const Crossing& crossing : sections.crossings)
    for (const int to : crossing.to)
      fmt::format_to(std::back_inserter(text), "from section {} to {}: result of {}, {} bytes a micro-batch\n",
                     crossing.from, to, forward_.graph.operators[static_cast<std::size_t>(crossing.made_by)].name,
                     forward_.graph.values[static_cast<std::size_t>(crossing.value)].bytes);
  for (std::size_t position = 0; position < plan_.passes.size(); ++position)
    fmt::format_to(std::back_inserter(text), "rank {} of a line: {}\n", position,
                   text_of(plan_.passes[position], plan_.num_sections() > plan_.ranks));
  return text;
}

}  // namespace zero
