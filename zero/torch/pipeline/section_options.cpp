#include "zero/torch/pipeline/section_options.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/engine/options/same_options.h"
#include "zero/torch/attached/first_values.h"
#include "zero/torch/module/module_parameters.h"

namespace zero {
namespace {

[[noreturn]] void refuse_with_pipeline(std::string_view key, std::string_view value) {
  throw ConfigError(key, value, "a pipeline does not support this option yet",
                    "leave it out, or set parallel.pipeline = 1");
}

std::string lines_of(const PipelineOptions& pipeline) {
  std::string text;
  const auto add = [&text](std::string_view key, const auto& value) {
    text += fmt::format("parallel.{} = {}\n", key, value);
  };
  add("pipeline", pipeline.pipeline);
  add("sections", pipeline.sections);
  add("schedule", name_of(pipeline.schedule));
  add("depth", pipeline.depth);
  add("activation_memory", pipeline.activation_memory);
  if (pipeline.first_units.empty()) {
    add("cut", pipeline.cut == CutBy::kSeconds ? "measured" : "work");
  } else {
    add("cut", fmt::format("[{}]", fmt::join(pipeline.first_units, ", ")));
  }
  return text;
}

}  // namespace

void require_same_pipeline(Communicator& run, const PipelineOptions& pipeline, const AttachOptions& options,
                           const ModelTensors& model) {
  std::string text = lines_of(pipeline);
  text += fmt::format("weights = {}\n", options.weights ? "given" : "those of the module");
  text += fmt::format("awaits_load = {}\n", options.awaits_load);
  text += text_of_options(options, parameters_of(model, options.dtype).specs);
  require_same_lines(run, "attach_pipeline()", text);
  require_same_buffers(model.buffers, run);
}

void require_pipeline_options(const AttachOptions& options, const std::vector<torch::Tensor>& parameters) {
  if (options.sync.has_servers()) refuse_with_pipeline("sync.servers", fmt::format("{}", options.sync.servers));
  if (options.local) refuse_with_pipeline("sync.mode", "local");
  if (options.delayed_update) refuse_with_pipeline("zero.delayed_update", "true");
  if (options.wire.gather != WireCodec::kNone)  // codes depend on a unit's number, which each section's engine assigns
    refuse_with_pipeline("comm.gather_wire", name_of(options.wire.gather));
  if (options.wire.reduce != WireCodec::kNone) refuse_with_pipeline("comm.reduce_wire", name_of(options.wire.reduce));
  if (options.wire.outer != WireCodec::kNone) refuse_with_pipeline("comm.outer_wire", name_of(options.wire.outer));
  if (!options.device.empty() && options.device != "cpu") refuse_with_pipeline("run.device", options.device);
  for (const torch::Tensor& tensor : parameters)
    if (tensor.is_cuda()) refuse_with_pipeline("run.device", tensor.device().str());
}

AttachOptions with_loss_scale(AttachOptions options, const std::vector<ParamSpec>& specs) {
  const bool needs_one =
      std::ranges::any_of(specs, [](const ParamSpec& spec) { return spec.trainable && spec.dtype == DType::kFloat16; });
  if (needs_one && !options.loss_scale) options.loss_scale = LossScaleOptions{};
  return options;
}

AttachOptions section_options(AttachOptions options, const ModelTensors& tensors, double share) {
  std::erase_if(options.units, [&](const std::string& unit) {
    return std::ranges::none_of(tensors.parameters, [&](const ModelTensors::Parameter& parameter) {
      return parameter.name.starts_with(unit + ".");
    });
  });
  for (ParameterGroup& group : options.groups) group.name.clear();
  const auto part = [share](std::int64_t bytes) {
    return share == 1 ? bytes : static_cast<std::int64_t>(static_cast<double>(bytes) * share);
  };
  for (const Tier tier : kAllTiers) {
    std::int64_t* const bytes = budget_bytes(options, tier);
    if (bytes == nullptr) continue;
    const std::int64_t mine = part(*bytes);
    *bytes = is_memory(tier) ? mine : std::max<std::int64_t>(1, mine);  // 0 would mean no limit
  }
  return options;
}

}  // namespace zero
