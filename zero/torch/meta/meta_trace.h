// trace_on_meta(): traces a training step before memory is allocated: forward and backward on the meta device.
//
//   auto model = zero::deferred([] { return std::make_shared<Net>(); });
//   MetaTrace traced = trace_on_meta(*model, [&](int) { return loss_of(model->forward(meta_tokens)); });
//   Schedule s = build_schedule(traced.trace, traced.units, 1024, place(3, Reduce::kAuto, 1), {64 << 20});
//
// The events are the same that the first real step records, if the model does not read values. Local.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zero/plan/schedule/trace.h"
#include "zero/plan/units/unit.h"
#include "zero/torch/module/model_tensors.h"

namespace zero {

struct MetaTrace {
  std::vector<ParamSpec> specs;
  std::vector<Unit> units;
  Trace trace;
};

struct MetaTraceOptions {
  int accumulate = 1;
  std::optional<DType> dtype;      // the type in which parameters will be held; absent: their own types
  std::vector<std::string> units;  // as in AttachOptions
  MatrixChoice is_matrix;          // argument of make_units()
};

// Traces one step. `module` must be deferred and is unchanged afterwards. `loss(micro)` returns a scalar on the meta
// device. Throws ConfigError as attach() does.
MetaTrace trace_on_meta(torch::nn::Module& module, const std::function<torch::Tensor(int micro)>& loss,
                        const MetaTraceOptions& options = {});
// The same for a model that is not a torch::nn::Module.
MetaTrace trace_on_meta(const ModelTensors& model, const std::function<torch::Tensor(int micro)>& loss,
                        const MetaTraceOptions& options = {});

}  // namespace zero
