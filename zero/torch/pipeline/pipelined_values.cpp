// PipelinedModule: reading all parameters of the model.
#include <algorithm>
#include <numeric>

#include <ATen/ops/empty.h>

#include "zero/comm/collectives.h"
#include "zero/torch/attached/export_weights.h"
#include "zero/torch/pipeline/pipelined_module.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {

void PipelinedModule::for_each_parameter(const Visit& visit, bool full_precision) {
  std::size_t next = 0;
  do {
    next = visit_some(next, visit, full_precision);
  } while (next != 0);
}

// A section's engine visits several neighbours in the order of its own names at once. `waiting_` holds their values
// until their turn in the order of all names.
std::size_t PipelinedModule::visit_some(std::size_t first, const Visit& visit, bool full_precision) {
  require_attached("for_each_parameter");
  if (grid_.pipeline == 1) return modules_.front()->states().visit_some(first, visit, full_precision);
  if (first == 0) {
    next_of_section_.assign(static_cast<std::size_t>(plan_.num_sections()), 0);
    waiting_.clear();
  }
  std::vector<std::size_t> order(parameters_.specs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [this](std::size_t param) { return parameters_.specs[param].name; });
  const std::size_t param = order.at(first);
  const ParamSpec& spec = parameters_.specs[param];
  const int section = forward_.sections.home_of_param[param];
  torch::Tensor values;
  if (AttachedModule* const module = module_of(section)) {
    std::size_t& next = next_of_section_[static_cast<std::size_t>(section)];
    if (!waiting_.contains(spec.name))
      next = module->states().visit_some(
          next, [&](const std::string& name, const torch::Tensor& tensor) { waiting_[name] = tensor.clone(); },
          full_precision);
    values = waiting_.extract(spec.name).mapped().contiguous();
  } else {
    const DType type = full_precision ? DType::kFloat32 : spec.dtype;
    values = at::empty(spec.shape, at::TensorOptions().dtype(to_scalar_type(type)));
  }
  broadcast(world_.communicator(), {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()},
            first_rank_of(section), {.control = true});
  visit(spec.name, values);
  return first + 1 == order.size() ? 0 : first + 1;
}

void PipelinedModule::export_weights(const std::filesystem::path& path, bool full_precision,
                                     const std::set<std::string>& left_out) {
  require_attached("export_weights");
  if (grid_.pipeline == 1) return modules_.front()->states().export_weights(path, full_precision, left_out);
  NamedBuffers buffers;
  for (const ModelTensors::Buffer& buffer : model_.buffers) {
    const auto same = [&](const auto& known) { return known.second.is_same(buffer.tensor); };
    if (!left_out.contains(buffer.name) && std::ranges::none_of(buffers, same))
      buffers.emplace_back(buffer.name, buffer.tensor);
  }
  zero::export_weights(
      path, world_.communicator(), parameters_.specs, buffers,
      [&](const Visit& visit) { for_each_parameter(visit, full_precision); }, full_precision);
}

}  // namespace zero
