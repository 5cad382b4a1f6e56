#include "zero/torch/attached_module.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>

#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/checkpoint/same_outcome.h"
#include "zero/comm/collectives.h"
#include "zero/plan/partition.h"
#include "zero/torch/deferred.h"
#include "zero/torch/gradient_hook.h"
#include "zero/torch/gradient_watch.h"
#include "zero/torch/module_parameters.h"
#include "zero/torch/tagged_tensor.h"
#include "zero/torch/tensor_type.h"

namespace zero {
namespace {

EngineOptions engine_options(const AttachOptions& options, const World& world) {
  return {.stage = options.stage,
          .reduce = options.reduce,
          .accumulate = options.accumulate,
          .delayed_update = options.delayed_update,
          .exact_steps = options.exact_steps,
          .device_memory = options.device_memory,
          .offload = options.offload,
          .optimizer = options.optimizer,
          .groups = options.groups,
          .clip = options.clip,
          .average_micro_batches = options.average_micro_batches,
          .threads = options.threads,
          .local_world = world.local_size(),
          .max_skipped_steps = options.max_skipped_steps,
          .timeline = options.timeline};
}

}  // namespace

AttachedModule::AttachedModule(torch::nn::Module& module, World& world, AttachOptions options)
    : options_(std::move(options)),
      exceptions_at_start_(std::uncaught_exceptions()),
      awaits_load_(options_.awaits_load) {
  if (options_.weights && awaits_load_)
    throw ConfigError("attach", "awaits_load", "first values come from `weights` already", "give one of the two");
  ModuleParameters found = parameters_of(module, options_.dtype);
  specs_ = std::move(found.specs);
  tensors_ = std::move(found.tensors);
  units_ = make_units(specs_, options_.units);
  addresses_ = addresses_of(units_, specs_.size());
  for (std::size_t param = 0; param < specs_.size(); ++param) {
    storages_.emplace_back(*this, static_cast<int>(param), specs_[param].name,
                           static_cast<std::size_t>(specs_[param].numel()) * size_of(specs_[param].dtype));
  }
  Communicator& comm = world.communicator();
  engine_ = std::make_unique<Engine>(comm, specs_, units_, engine_options(options_, world), *this);
  images_ = std::make_unique<StagingMemory>(*engine_);
  hooks_.resize(specs_.size());
  const bool builds = !options_.weights && !awaits_load_;
  if (options_.weights)
    for (const Unit& unit : units_) fill_unit(unit, comm);
  options_.weights = nullptr;
  for (const Unit& unit : units_) {
    if (builds) build_unit(unit, comm);
    take_over(unit);
  }
  prepare_buffers(module, comm);
}

// A unit's first contents from outside: rank 0 asks for them. Nothing of the module has changed yet.
void AttachedModule::fill_unit(const Unit& unit, Communicator& comm) {
  std::vector<float> flat(static_cast<std::size_t>(padded_numel(unit, comm.world())));
  std::exception_ptr thrown;
  std::string failure;
  if (comm.rank() == 0) {
    try {
      for (const Slice& slice : unit.slices)
        options_.weights(
            specs_[static_cast<std::size_t>(slice.param)].name,
            std::span(flat).subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.numel)));
    } catch (const std::exception& error) {
      thrown = std::current_exception();
      failure = error.what();
    } catch (...) {
      thrown = std::current_exception();
    }
    if (thrown != nullptr && failure.empty()) failure = "an exception without a message";
  }
  failure = broadcast_text(comm, failure);
  if (thrown != nullptr) std::rethrow_exception(thrown);
  if (!failure.empty()) throw IoError("weights", "read", 0, fmt::format("rank 0: {}", failure));
  const auto bytes = std::as_writable_bytes(std::span(flat));
  comm.broadcast(bytes, 0, {.unit = unit.index, .control = true}).wait();
  engine_->states().load(unit.index, bytes.data(), DType::kFloat32);
  comm.drain();
}

// A unit's first contents: from the recording where the module was deferred, else rank 0's. One unit is whole at a
// time.
void AttachedModule::build_unit(const Unit& unit, Communicator& comm) {
  c10::AutoGradMode no_gradients(false);
  torch::Tensor flat = torch::zeros({padded_numel(unit, comm.world())}, torch::kFloat32);
  bool deferred = true;
  for (const Slice& slice : unit.slices) {
    const auto param = static_cast<std::size_t>(slice.param);
    torch::Tensor value = tensors_[param];
    if (is_deferred(value)) {
      value = build_deferred(value, specs_[param].name);
    } else {
      deferred = false;
    }
    flat.narrow(0, slice.offset, slice.numel).copy_(value.detach().reshape({-1}));
  }
  const std::span<std::byte> bytes{static_cast<std::byte*>(flat.mutable_data_ptr()), flat.nbytes()};
  if (!deferred) comm.broadcast(bytes, 0, {.unit = unit.index, .control = true}).wait();
  engine_->states().load(unit.index, bytes.data(), DType::kFloat32);
  if (!deferred) comm.drain();
}

void AttachedModule::take_over(const Unit& unit) {
  for (const Slice& slice : unit.slices) {
    rehome(slice.param);
    watch_gradient(tensors_[static_cast<std::size_t>(slice.param)]);
    if (unit.trainable) install_hook(slice.param);
  }
}

void AttachedModule::rehome(int param) {
  const auto index = static_cast<std::size_t>(param);
  c10::AutoGradMode no_gradients(false);
  tensors_[index].mutable_grad().reset();
  replace_data(tensors_[index], tensor_over(storages_[index].storage(), specs_[index].shape,
                                            to_scalar_type(specs_[index].dtype), /*keyed=*/true));
}

void AttachedModule::install_hook(int param) {
  const auto index = static_cast<std::size_t>(param);
  auto node = torch::autograd::impl::grad_accumulator(tensors_[index]);
  ZERO_CHECK(node != nullptr, "{} has no gradient accumulator", specs_[index].name);
  hooks_[index].key = node->add_post_hook(std::make_unique<GradientHook>(*this, param));
  hooks_[index].node = std::move(node);
}

void AttachedModule::prepare_buffers(torch::nn::Module& module, Communicator& comm) {
  c10::AutoGradMode no_gradients(false);
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_buffers()) {
    torch::Tensor buffer = item.value();
    if (!buffer.defined() || !seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    if (is_deferred(buffer)) replace_data(buffer, build_deferred(buffer, item.key()));
    // Those of a module whose parameters stay fp32: see parameters_of().
    if (options_.dtype && is_running_statistic(item.key()) && buffer.is_floating_point())
      replace_data(buffer, buffer.to(torch::kFloat32));
    buffers_.emplace_back(item.key(), buffer);
    torch::Tensor contiguous = buffer.contiguous();
    comm.broadcast({static_cast<std::byte*>(contiguous.mutable_data_ptr()), contiguous.nbytes()}, 0, {.control = true})
        .wait();
    comm.drain();
    if (!contiguous.is_same(buffer)) buffer.copy_(contiguous);
  }
}

// Ranks that are threads share one.
bool AttachedModule::owns_generator() const {
  const Communicator& comm = engine_->communicator();
  return comm.world() == 1 || comm.transport() != "in_process";
}

std::unique_ptr<CheckpointSave> AttachedModule::begin_save(const std::filesystem::path& path, SaveContents contents,
                                                           SaveMode mode) {
  require_loaded();
  verify();
  return std::make_unique<CheckpointSave>(*engine_, path, with_extras(std::move(contents)), mode, FileCalls::kernel(),
                                          images_.get());
}

bool AttachedModule::keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents) {
  require_loaded();
  verify();
  contents = with_extras(std::move(contents));
  if (kept.save(*engine_, step, contents)) return true;
  images_->give_back();  // no save uses it now, and the machine counts it as taken
  return kept.save(*engine_, step, std::move(contents));
}

SaveContents AttachedModule::with_extras(SaveContents contents) const {
  for (Extra& extra : extras_of(buffers_, owns_generator())) contents.extras.push_back(std::move(extra));
  return contents;
}

LoadedCheckpoint AttachedModule::load(const std::filesystem::path& path, const FileCalls& calls) {
  verify();
  const Communicator& comm = engine_->communicator();
  bool with_generator = false;
  const auto check = [&](const Manifest& manifest) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    require_buffers(manifest.files[rank % manifest.files.size()].extras, buffers_, path.string());
    with_generator = std::ssize(manifest.files) == comm.world() && owns_generator();
    if (with_generator) require_generators(manifest, path.string());
  };
  LoadedCheckpoint loaded =
      load_checkpoint(*engine_, path, calls, {.check = check, .begin = [this] { awaits_load_ = true; }});
  take_extras(loaded.extras, buffers_, with_generator, path.string());
  awaits_load_ = false;
  return loaded;
}

AttachedModule::~AttachedModule() {
  for (Hook& hook : hooks_) {
    if (hook.node != nullptr) hook.node->del_post_hook(hook.key);
  }
  scopes_.clear();
  const auto read = std::ranges::find_if(tensors_, take_gradient_reads);
  if (read != tensors_.end()) {
    ZERO_LOG(
        warn,
        "the .grad() of {} was read since the last step(): it never holds anything while the module is attached, so "
        "clip_grad_norm_() and another optimizer's step() do nothing",
        specs_[static_cast<std::size_t>(read - tensors_.begin())].name);
  }
  const bool failing = std::uncaught_exceptions() > exceptions_at_start_;
  if (failing) ZERO_LOG(info, "an error ends this engine: its parameters are left empty");
  try {
    if (!abandoned_ && !failing && !awaits_load_) give_back_all();
    if (!failing) engine_->communicator().barrier({.control = true}).wait();
  } catch (const std::exception& error) {
    ZERO_LOG(error, "parameters could not be given back: {}", error.what());
  }
  for (std::size_t param = 0; param < storages_.size(); ++param) {
    if (ParameterStorage::of(tensors_[param]) != nullptr) forget(static_cast<int>(param));
  }
}

void AttachedModule::give_back_all() {
  engine_->finish(/*ends=*/true);
  ending_ = true;
  for (const Unit& unit : units_) {
    const GatheredUnit whole = engine_->use(unit.index, Use::kUntraced);
    const std::byte* data = engine_->data(unit.index);
    for (const Slice& slice : unit.slices)
      give_back(slice.param, data + slice.offset * static_cast<std::int64_t>(size_of(unit.dtype)));
  }
}

void AttachedModule::give_back(int param, const std::byte* data) {
  const auto index = static_cast<std::size_t>(param);
  const std::size_t bytes = storages_[index].storage().nbytes();
  c10::DataPtr own = c10::GetAllocator(c10::DeviceType::CPU)->allocate(bytes);
  if (bytes > 0) std::memcpy(own.get(), data, bytes);
  storages_[index].give_back(std::move(own));
  c10::AutoGradMode no_gradients(false);
  replace_data(tensors_[index], tensor_over(storages_[index].storage(), specs_[index].shape,
                                            to_scalar_type(specs_[index].dtype), /*keyed=*/false));
}

// Parameters that are not given back must not point to a handle that is gone: an empty storage of their own is left.
void AttachedModule::forget(int param) {
  const auto index = static_cast<std::size_t>(param);
  storages_[index].leave_empty(specs_[index].name);
  c10::AutoGradMode no_gradients(false);
  replace_data(tensors_[index], tensor_over(storages_[index].storage(), specs_[index].shape,
                                            to_scalar_type(specs_[index].dtype), /*keyed=*/false));
}

void AttachedModule::bind(int unit, std::byte* data) {
  if (ending_) return;  // storages are being given back: what a unit does from now on does not concern them
  const Unit& description = units_[static_cast<std::size_t>(unit)];
  for (const Slice& slice : description.slices) {
    storages_[static_cast<std::size_t>(slice.param)].point_to(
        data == nullptr ? nullptr : data + slice.offset * static_cast<std::int64_t>(size_of(description.dtype)));
  }
}

Use AttachedModule::why() const {
  // Inside a backward pass: its own operators, and a forward that is recomputed there.
  if (torch::autograd::get_current_graph_task_id() != -1) return Use::kBackward;
  const c10::AutogradState& state = c10::AutogradState::get_tls_state();
  if (state.get_grad_mode()) return Use::kForward;
  if (state.get_inference_mode()) return Use::kUntraced;
  // A custom autograd function runs its forward without gradients; it belongs to whatever called it. From Python it is
  // known by the forward-mode flag; from C++ it looks like an evaluation, which comes between steps and not within a
  // forward pass.
  if (!state.get_fw_grad_mode()) return last_use_;
  return engine_->in_forward() ? Use::kForward : Use::kUntraced;
}

GatheredUnit AttachedModule::use(int param, bool writes) {
  require_loaded();
  const int unit = addresses_[static_cast<std::size_t>(param)].unit;
  const Use now = scopes_.empty() ? why() : Use::kUntraced;
  if (now != Use::kBackward) last_use_ = now;
  GatheredUnit held = engine_->use(unit, now);
  if (writes) engine_->mark_written(unit);
  return held;
}

void AttachedModule::take_gradient(int param) {
  const auto index = static_cast<std::size_t>(param);
  torch::Tensor& slot = tensors_[index].mutable_grad();
  if (!slot.defined()) return;
  c10::AutoGradMode no_gradients(false);
  torch::Tensor gradient = slot.detach();
  slot.reset();
  if (gradient.layout() != at::kStrided) gradient = gradient.to_dense();
  gradient = gradient.to(to_scalar_type(specs_[index].dtype)).contiguous();
  engine_->add_gradient(param, static_cast<const std::byte*>(gradient.const_data_ptr()));
}

void AttachedModule::verify() const {
  for (std::size_t param = 0; param < tensors_.size(); ++param) {
    const ParameterHandle* handle = ParameterStorage::of(tensors_[param]);
    if (handle != nullptr && handle->owner == this) continue;
    throw ConfigError("attach", specs_[param].name,
                      "this parameter was replaced after attach() (Module::to, set_data or an assignment)",
                      "convert and move the module before attach()");
  }
}

void AttachedModule::require_loaded() const {
  if (awaits_load_)
    throw ConfigError("attach", "awaits_load", "this engine's values are not whole: none were loaded, or a load failed",
                      "load a checkpoint before anything else");
}

void AttachedModule::refuse_gradients_elsewhere() const {
  const torch::Tensor *read = nullptr, *held = nullptr;
  for (const torch::Tensor& tensor : tensors_) {
    if (take_gradient_reads(tensor) && read == nullptr) read = &tensor;
    if (holds_gradient(tensor) && held == nullptr) held = &tensor;
  }
  const auto name = [this](const torch::Tensor* tensor) {
    return specs_[static_cast<std::size_t>(tensor - tensors_.data())].name;
  };
  if (held != nullptr)
    throw ConfigError("attach", name(held), "a gradient lies in its .grad(), which step() does not use",
                      "let loss.backward() make all gradients, and set requires_grad before attach()");
  if (read != nullptr)
    throw ConfigError(
        "attach", name(read),
        "its .grad() was read, which never holds anything: gradients go to the engine, so clip_grad_norm_() "
        "and another optimizer's step() do nothing",
        "use AttachOptions.clip and AttachOptions.optimizer, and leave those calls out");
}

StepReport AttachedModule::step(double lr, const StepLimits& limits) {
  require_loaded();
  verify();
  refuse_gradients_elsewhere();
  images_->yield();
  return engine_->step(lr, limits);
}

std::vector<int> AttachedModule::units_of(const torch::nn::Module& module) const {
  std::unordered_set<const at::TensorImpl*> wanted;
  for (const torch::Tensor& tensor : module.parameters()) wanted.insert(tensor.unsafeGetTensorImpl());
  std::vector<int> units;
  std::size_t found = 0;
  for (std::size_t param = 0; param < tensors_.size(); ++param) {
    if (!wanted.contains(tensors_[param].unsafeGetTensorImpl())) continue;
    ++found;
    units.push_back(addresses_[param].unit);
  }
  if (found != wanted.size())
    throw ConfigError("gathered", module.name(), "this module is not the attached one, nor inside it",
                      "pass a module whose parameters were attached");
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

void AttachedModule::gather_for_everybody(const std::vector<int>& units) {
  require_loaded();
  std::vector<GatheredUnit> held;
  for (int unit : units) held.push_back(engine_->use(unit, Use::kUntraced));
  scopes_.push_back(std::move(held));
}

void AttachedModule::release_from_everybody(const std::vector<int>& units, int source_rank) {
  Communicator& comm = engine_->communicator();
  for (int unit : units) {
    if (source_rank >= 0) {
      const Unit& description = units_[static_cast<std::size_t>(unit)];
      const auto bytes = static_cast<std::size_t>(padded_numel(description, comm.world())) * size_of(description.dtype);
      comm.broadcast({engine_->data(unit), bytes}, source_rank, {.unit = unit, .control = true}).wait();
      comm.drain();
    }
    engine_->mark_written(unit);
  }
  scopes_.pop_back();
}

void AttachedModule::for_each_parameter(const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                                        bool full_precision) {
  require_loaded();
  std::vector<std::size_t> order(specs_.size());
  for (std::size_t param = 0; param < order.size(); ++param) order[param] = param;
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return specs_[a].name < specs_[b].name; });
  c10::AutoGradMode no_gradients(false);
  // A unit's parameters that follow each other are read in one go.
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const int unit = addresses_[order[begin]].unit;
    while (end < order.size() && addresses_[order[end]].unit == unit) ++end;
    engine_->states().read_full_precision(unit, [&](std::span<const float> whole) {
      for (std::size_t i = begin; i < end; ++i) {
        const ParamSpec& spec = specs_[order[i]];
        const auto slice = static_cast<std::size_t>(addresses_[order[i]].slice);
        const std::int64_t offset = units_[static_cast<std::size_t>(unit)].slices[slice].offset;
        const torch::Tensor values =
            torch::from_blob(const_cast<float*>(whole.data()) + offset, spec.shape, torch::kFloat32);
        visit(spec.name, full_precision ? values : values.to(to_scalar_type(spec.dtype)));
      }
    });
  }
}

}  // namespace zero
