#include "zero/torch/attached_module.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include <ATen/ops/_unique.h>
#include <ATen/ops/tensor.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/comm/board/device_sharers.h"
#include "zero/comm/collectives.h"
#include "zero/comm/transport/open_device_link.h"
#include "zero/device/open_device.h"
#include "zero/serve/role/make_role.h"
#include "zero/torch/attached/first_values.h"
#include "zero/torch/attached/other_holders.h"
#include "zero/torch/seam/torch_device.h"

namespace zero {

namespace {

// Returns the device of the model. Deferred parameters have no device yet.
std::string place_of(const ModelTensors& model) {
  for (const ModelTensors::Parameter& parameter : model.parameters)
    if (parameter.tensor.defined() && parameter.tensor.is_cuda()) return parameter.tensor.device().str();
  return "cpu";
}

std::shared_ptr<Device> device_for(const ModelTensors& model, const std::string& wanted, Device* given) {
  if (given != nullptr) return {std::shared_ptr<void>(), given};
  std::shared_ptr<Device> device = open_device(wanted.empty() ? place_of(model) : wanted);
  if (!device->host_readable()) open_torch_cuda(device->name());
  return device;
}

const AttachOptions& aligned(AttachOptions& options, const Device& device) {
  options.align_bytes = device.align_bytes();
  return options;
}

AttachedParameters attached_parameters(const ModelTensors& model, const Communicator& run, const AttachOptions& options,
                                       bool has_section, ParameterOwner& owner, Device& device) {
  ModuleParameters found = parameters_of(model, options.dtype);
  if (found.specs.empty())
    throw ConfigError("attach", "0 parameters", "the module has no registered parameter, so nothing would be trained",
                      "register each part in the module's constructor: register_module(\"fc\", fc) for a module, "
                      "register_parameter(\"w\", w) for a tensor");
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    const torch::Tensor& tensor = found.tensors[i];
    if (!tensor.is_meta() && tensor.device() != place_of(device))
      throw ConfigError("attach", found.specs[i].name,
                        fmt::format("it is on {}, and training is on {}", tensor.device().str(), device.name()),
                        "move the module there first");
  }
  if (run.rank() == 0) warn_of_other_holders(found, model);
  if (!has_section) {
    require_members(found.specs, options.groups);
    require_matrix(found.specs, options);
  }
  std::vector<Unit> units = units_of_role(found.specs, run, options);
  return {std::move(found), std::move(units), owner, device};
}

// A device's own link cannot be paced.
void refuse_simulated_link(const AttachOptions& options, const Device& device) {
  if (device.host_readable() || options.offload.link_bytes_per_second <= 0) return;
  throw ConfigError(
      "zero.link_bandwidth", fmt::format("{}", options.offload.link_bytes_per_second),
      fmt::format("a simulated link does not work on a device that the host cannot read ({})", device.name()),
      "leave it out, or train on the CPU");
}

}  // namespace

AttachedModule::AttachedModule(const ModelTensors& model, World& world, AttachOptions options, const EngineHost& host)
    : world_(world),
      device_(device_for(model, options.device, host.device)),
      parameters_(attached_parameters(model, world.communicator(), aligned(options, *device_), host.has_section, *this,
                                      *device_)),
      gradients_(parameters_, *this),
      role_(make_role(world.communicator(), options)),
      values_(*role_, world.rank(), options.awaits_load),
      exceptions_at_start_(std::uncaught_exceptions()) {
  if (options.weights && options.awaits_load)
    throw ConfigError("attach", "awaits_load", "`weights` gives the first values already", "give only one of the two");
  const WeightSource source = std::exchange(options.weights, nullptr);
  const std::optional<DType> dtype = options.dtype;
  AttachOptions of_role = role_->options();
  of_role.weights = nullptr;
  refuse_statistics(model, options.leaves);
  require_same_buffers(model.buffers, role_->comm_of_buffers());
  refuse_simulated_link(options, *device_);
  role_->refuse_device(*device_);
  stream_ = adopt_stream(*device_);
  share_memory(*device_);
  EngineHost on_device = host;
  on_device.local_world = world.local_size();
  on_device.updated_elsewhere = role_->updated_elsewhere();
  on_device.device = device_.get();
  if (!device_->host_readable())
    on_device.ranks_on_device = num_sharers(*device_, world.communicator(), host.ranks_on_device);
  if (!on_device.free_device_bytes && free_bytes_of(*device_))
    on_device.free_device_bytes = [this] { return free_bytes_of(*device_).value_or(0); };
  if (world.links_devices() && !on_device.open_link) on_device.open_link = &open_device_link;
  engine_ =
      std::make_unique<RankEngine>(role_->comm(), parameters_.specs(), parameters_.units(), of_role, *this, on_device);
  scopes_ = std::make_unique<OpenScopes>(*engine_, parameters_);
  role_->attach(*engine_);
  attached_role_.reset(role_.get());
  states_ = std::make_unique<AttachedStates>(*engine_, parameters_, buffers_);
  checkpoints_ = std::make_unique<AttachedCheckpoints>(*engine_, values_, buffers_, place_of(*device_), *role_);
  steps_ =
      std::make_unique<AttachedSteps>(PartsOfSteps{*engine_, parameters_, gradients_, *role_, values_, *checkpoints_});
  const bool has_values = values_.complete() && !role_->updated_elsewhere();
  if (source && has_values) load_from_source(*engine_, source);
  for (const Unit& unit : parameters_.units()) {
    if (!source && has_values) load_from_tensors(*engine_, unit, parameters_);
    parameters_.take_over(unit);
    gradients_.watch(unit);
  }
  buffers_ = first_buffers(model.buffers, dtype, place_of(*device_), role_->comm_of_buffers());
  if (values_.complete()) engine_->settle();
}

// Refuses statistics that a module gathers in training (BatchNorm), if the role does. With leaves each rank would
// gather those of its own leaves.
void AttachedModule::refuse_statistics(const ModelTensors& model, int leaves) const {
  for (const ModelTensors::Buffer& buffer : model.buffers) {
    if (!buffer.becomes_fp32) continue;
    if (leaves > 0)
      throw ConfigError("train.leaves", fmt::format("{}", leaves),
                        fmt::format("the module keeps running statistics of a rank's samples ({})", buffer.name),
                        "use a norm without them, such as LayerNorm or GroupNorm; or leave out train.leaves");
    role_->refuse_statistics(buffer.name);
  }
}

AttachedModule::~AttachedModule() {
  gradients_.warn_of_reads();
  if (ending_) return;  // detached, or being detached
  const bool failing = std::uncaught_exceptions() > exceptions_at_start_;
  if (failing) {
    scopes_->drop();
    ZERO_LOG(info, "an error ends this engine: its parameters are left empty");
    return;
  }
  try {
    end();
  } catch (const std::exception& error) {
    ZERO_LOG(error, "parameters could not be given back: {}", error.what());
  }
}

void AttachedModule::detach() {
  scopes_->end_left();
  if (scopes_->gathered())
    throw ConfigError("detach", "", "called while parameters are gathered", "end the gathered() scope first");
  try {
    end();
  } catch (...) {
    ending_ = true;  // so destruction does not try again
    throw;
  }
}

void AttachedModule::end() {
  if (values_.complete()) scopes_->end_left();
  scopes_->drop();
  role_->leave();
  if (gives_back_ && values_.complete()) give_back_all();
  if (!gives_back_ && values_.complete()) end_exchanges();
  ending_ = true;
  engine_->resources().comm.barrier({.control = true}).wait();
}

// Peers wait until this rank has read their parts of gathers that a step began.
void AttachedModule::end_exchanges() {
  try {
    engine_->finish(/*ends=*/true);
  } catch (const IoError&) {  // nobody needs the values
  }
}

void AttachedModule::give_back_all() {
  engine_->finish(/*ends=*/true);
  if (scopes_->trains_apart()) engine_->states().exchange_averages(/*ends=*/true);
  ending_ = true;
  for (const Unit& unit : parameters_.units()) {
    const GatheredUnit whole = engine_->use(unit.index, Use::kUntraced);
    parameters_.give_back(unit, whole.data());
  }
}

void AttachedModule::bind(int unit, std::byte* data) {
  if (ending_) return;  // storages are being given back: later changes of a unit do not concern them
  parameters_.point_to(parameters_.units()[static_cast<std::size_t>(unit)], data);
}

GatheredUnit AttachedModule::use(int param, bool writes) {
  const ThreadGate::Entry entry(world_.gate(), world_.rank());
  values_.require();
  require_stream(stream_);
  scopes_->end_left();
  const int unit = parameters_.address(param).unit;
  Use why = scopes_->beside_training() ? Use::kUntraced : pass_.of_this_operator(engine_->in_forward());
  if (why == Use::kBackward && backward_as_forward_) why = Use::kForward;
  if (why != Use::kUntraced) steps_->drop_zeroed();
  GatheredUnit held = engine_->use(unit, why);
  if (!writes) return held;
  held.mark_written();
  if (watches_write(unit)) engine_->writes().begin(param, parameters_.hash_of(param, held.data()));
  return held;
}

// The end of a gathered() scope compares all bytes of its units, so it also finds writes through pointers.
bool AttachedModule::watches_write(int unit) const {
  return engine_->writes().watches() && !scopes_->holds(unit);
}

void AttachedModule::wrote(int param, const GatheredUnit& held) {
  if (watches_write(held.unit())) engine_->writes().end(param, parameters_.hash_of(param, held.data()));
}

at::Tensor AttachedModule::rows_of_all_ranks(int param, const at::Tensor& rows) {
  const EngineResources resources = engine_->resources();
  if (const int leaves = resources.options.leaves; leaves > 0)
    throw ConfigError("train.leaves", fmt::format("{}", leaves),
                      fmt::format("an embedding with max_norm writes into {} in each forward pass, in an order that "
                                  "depends on the number of ranks",
                                  parameters_.specs()[static_cast<std::size_t>(param)].name),
                      "use an embedding without max_norm, or leave out train.leaves");
  Communicator& alike = resources.options.local ? resources.copy : resources.comm;
  if (alike.world() == 1 || scopes_->holds(parameters_.address(param).unit)) return rows;
  const at::Tensor mine = std::get<0>(at::_unique(rows.detach().cpu().to(at::kLong)));
  const auto all =
      all_gather_numbers(alike, {mine.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(mine.numel())});
  std::vector<std::int64_t> joined;
  for (const std::vector<std::int64_t>& of_rank : all) joined.insert(joined.end(), of_rank.begin(), of_rank.end());
  return at::tensor(joined, at::kLong).to(rows.device(), rows.scalar_type());  // may contain a row twice
}

void AttachedModule::take_gradient(int param) {
  const ThreadGate::Entry entry(world_.gate(), world_.rank());
  values_.refuse_in_child();
  const torch::Tensor gradient = gradients_.take(param);
  if (!gradient.defined() || scopes_->frozen()) return;
  steps_->drop_zeroed();
  gradients_.has_come(param);
  engine_->add_gradient(param, static_cast<const std::byte*>(gradient.const_data_ptr()));
}

AttachedStates& AttachedModule::states() {
  values_.require();
  parameters_.require_unchanged();
  steps().drop_zeroed();
  return *states_;
}

AttachedCheckpoints& AttachedModule::checkpoints() {
  values_.require();
  AttachedCheckpoints& checkpoints = checkpoints_to_load();
  engine_->writes().require_same(engine_->resources().comm, parameters_.specs());
  return checkpoints;
}

AttachedCheckpoints& AttachedModule::checkpoints_to_load() {
  parameters_.require_unchanged();
  steps().drop_zeroed();
  return *checkpoints_;
}

}  // namespace zero
