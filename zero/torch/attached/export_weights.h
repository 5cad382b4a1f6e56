// export_weights(): one safetensors file with the parameters and buffers of a model.
//
//   const auto visit_all = [&](const auto& visit) { states.for_each_parameter(visit, /*full_precision=*/false); };
//   export_weights(path, comm, specs, buffers, visit_all, /*full_precision=*/false);
//
// `visit_all` calls its argument for each parameter of `specs`, on every rank. One parameter is whole at a time, and
// only rank 0 writes. Collective. If rank 0 cannot write, every rank throws IoError.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/units/unit.h"
#include "zero/torch/attached/rank_extras.h"

namespace zero {

void export_weights(
    const std::filesystem::path& path, Communicator& comm, const std::vector<ParamSpec>& specs,
    const NamedBuffers& buffers,
    const std::function<void(const std::function<void(const std::string& name, const at::Tensor& values)>& visit)>&
        visit_all,
    bool full_precision);

}  // namespace zero
