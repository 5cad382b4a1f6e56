#include "zero/torch/meta/meta_trace.h"

#include <algorithm>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/error/check.h"
#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/meta/meta_kernels.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/seam/gradient_hook.h"
#include "zero/torch/seam/parameter_storage.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {
namespace {

// Records the events that the executor would record. Consecutive operators on one unit are one access. A complete
// gradient of a unit is an event.
class TraceWriter final : public ParameterOwner, public UnitPins {
 public:
  explicit TraceWriter(const std::vector<Unit>& units, std::size_t num_params)
      : units_(units),
        addresses_(addresses_of(units, num_params)),
        pins_(units.size(), 0),
        announced_(units.size(), false),
        arrived_(num_params, false) {}

  GatheredUnit use(int param, bool) override {
    const int unit = addresses_[static_cast<std::size_t>(param)].unit;
    if (torch::autograd::get_current_graph_task_id() != -1) {
      begin_backward();
    } else {
      end_backward();
    }
    if (unit != last_) {
      std::vector<int> pinned;
      for (std::size_t other = 0; other < pins_.size(); ++other) {
        if (pins_[other] > 0) pinned.push_back(static_cast<int>(other));
      }
      trace_.events.push_back({EventKind::kAccess, unit, std::move(pinned), micro_batch_});
    }
    last_ = unit;
    ++pins_[static_cast<std::size_t>(unit)];
    return {*this, unit, nullptr};
  }

  void unpin(int unit) noexcept override { --pins_[static_cast<std::size_t>(unit)]; }
  void mark_written(int) override {}

  void take_gradient(int param) override {
    begin_backward();
    arrived_[static_cast<std::size_t>(param)] = true;
    const Unit& unit = units_[static_cast<std::size_t>(addresses_[static_cast<std::size_t>(param)].unit)];
    const bool complete = std::all_of(unit.slices.begin(), unit.slices.end(), [this](const Slice& slice) {
      return slice.numel == 0 || arrived_[static_cast<std::size_t>(slice.param)];
    });
    if (complete) announce(unit.index);
  }

  void end_backward() {
    if (!in_backward_) return;
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
      if (unit->trainable) announce(unit->index);
    }
    trace_.events.push_back({EventKind::kEndBackward, -1, {}, micro_batch_++});
    announced_.assign(announced_.size(), false);
    arrived_.assign(arrived_.size(), false);
    in_backward_ = false;
    last_ = -1;
  }

  Trace take() {
    end_backward();
    trace_.events.push_back({EventKind::kStep, -1, {}});
    return std::move(trace_);
  }

 private:
  void begin_backward() {
    if (in_backward_) return;
    in_backward_ = true;
    last_ = -1;
    trace_.events.push_back({EventKind::kBackward, -1, {}, micro_batch_});
  }
  void announce(int unit) {
    if (announced_[static_cast<std::size_t>(unit)]) return;
    announced_[static_cast<std::size_t>(unit)] = true;
    trace_.events.push_back({EventKind::kGradient, unit, {}, micro_batch_});
  }

  const std::vector<Unit>& units_;
  std::vector<SliceAddress> addresses_;
  std::vector<int> pins_;
  std::vector<bool> announced_;
  std::vector<bool> arrived_;
  Trace trace_;
  int last_ = -1;
  int micro_batch_ = 0;
  bool in_backward_ = false;
};

// Makes a module's parameters report to a TraceWriter. The destructor restores the module.
class TracedModule {
 public:
  TracedModule(const ModuleParameters& parameters, TraceWriter& writer) : parameters_(parameters) {
    for (std::size_t param = 0; param < parameters.tensors.size(); ++param) {
      const torch::Tensor& tensor = parameters.tensors[param];
      const ParamSpec& spec = parameters.specs[param];
      if (!tensor.is_meta())
        throw ConfigError("trace_on_meta", spec.name, "this parameter has memory already",
                          "construct the module inside zero::deferred()");
      originals_.push_back({tensor.storage(), tensor.scalar_type()});
      storages_.emplace_back(writer, static_cast<int>(param), spec.name,
                             static_cast<std::size_t>(spec.numel()) * size_of(spec.dtype), c10::DeviceType::Meta);
      replace_data(tensor, tensor_over(storages_.back().storage(), spec.shape, to_scalar_type(spec.dtype), true));
      if (!spec.trainable) continue;
      auto node = torch::autograd::impl::grad_accumulator(tensor);
      node->add_post_hook(std::make_unique<GradientHook>(writer, static_cast<int>(param)));
      nodes_.push_back(std::move(node));
    }
  }
  ~TracedModule() {
    for (std::size_t param = 0; param < originals_.size(); ++param) {
      const torch::Tensor& tensor = parameters_.tensors[param];
      tensor.mutable_grad().reset();
      replace_data(tensor, tensor_over(originals_[param].storage, parameters_.specs[param].shape,
                                       originals_[param].type, false));
    }
  }
  TracedModule(const TracedModule&) = delete;
  TracedModule& operator=(const TracedModule&) = delete;

 private:
  struct Original {
    c10::Storage storage;
    c10::ScalarType type;
  };
  const ModuleParameters& parameters_;
  std::vector<Original> originals_;
  std::vector<ParameterStorage> storages_;
  std::vector<std::shared_ptr<torch::autograd::Node>> nodes_;
};

}  // namespace

MetaTrace trace_on_meta(torch::nn::Module& module, const std::function<torch::Tensor(int)>& loss,
                        const MetaTraceOptions& options) {
  return trace_on_meta(tensors_of(module), loss, options);
}

MetaTrace trace_on_meta(const ModelTensors& model, const std::function<torch::Tensor(int)>& loss,
                        const MetaTraceOptions& options) {
  const ModuleParameters parameters = parameters_of(model, options.dtype);
  MetaTrace result{.specs = parameters.specs,
                   .units = make_units(parameters.specs, options.units, 1, options.is_matrix)};
  TraceWriter writer(result.units, result.specs.size());
  const TracedModule traced(parameters, writer);
  const MetaKernels kernels;
  for (int micro = 0; micro < options.accumulate; ++micro) {
    loss(micro).backward();
    writer.end_backward();
  }
  result.trace = writer.take();
  return result;
}

}  // namespace zero
