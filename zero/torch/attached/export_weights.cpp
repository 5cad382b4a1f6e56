#include "zero/torch/attached/export_weights.h"

#include <optional>

#include "zero/base/error/check.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/safetensors/safetensors_writer.h"
#include "zero/torch/attached/attached_states.h"

namespace zero {

void export_weights(
    const std::filesystem::path& path, Communicator& comm, const std::vector<ParamSpec>& specs,
    const NamedBuffers& named_buffers,
    const std::function<void(const std::function<void(const std::string& name, const at::Tensor& values)>& visit)>&
        visit_all,
    bool full_precision) {
  std::optional<SafetensorsWriter> writer;
  std::string failure;
  // If rank 0 fails, it must still take part in the gathers for which the others wait.
  const auto on_rank_0 = [&](const std::function<void()>& body) {
    if (comm.rank() == 0 && failure.empty()) failure = failure_of(body);
  };
  std::vector<Extra> buffers;
  on_rank_0([&] {
    for (const auto& [name, tensor] : named_buffers) buffers.push_back(extra_of(name, tensor));
    std::vector<SafetensorsEntry> entries;
    for (const ParamSpec& spec : specs)
      entries.push_back({.name = spec.name,
                         .dtype = element_type_of(full_precision ? DType::kFloat32 : spec.dtype),
                         .shape = spec.shape});
    for (const Extra& buffer : buffers)
      entries.push_back({.name = buffer.name, .dtype = buffer.dtype, .shape = buffer.shape});
    writer.emplace(path, std::move(entries));
    for (const Extra& buffer : buffers) writer->write(buffer.name, 0, buffer.bytes);
  });
  visit_all([&](const std::string& name, const at::Tensor& values) {
    on_rank_0([&] {
      ZERO_CHECK(values.is_contiguous() && values.is_cpu());
      writer->write(name, 0, {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
    });
  });
  on_rank_0([&] { writer->commit(); });
  require_same_outcome(comm, path.string(), failure);
}

void AttachedStates::export_weights(const std::filesystem::path& path, bool full_precision,
                                    const std::set<std::string>& left_out) {
  NamedBuffers buffers;
  for (const auto& [name, tensor] : buffers_) {
    if (!left_out.contains(name)) buffers.emplace_back(name, tensor);
  }
  zero::export_weights(
      path, engine_.resources().comm, parameters_.specs(), buffers,
      [&](const ParameterVisit& visit) { for_each_parameter(visit, full_precision); }, full_precision);
}

}  // namespace zero
