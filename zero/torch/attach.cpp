#include "zero/torch/attach.h"

#include "zero/base/error/error.h"
#include "zero/engine/options/option_numbers.h"
#include "zero/serve/role/make_role.h"
#include "zero/torch/attach_host.h"
#include "zero/torch/attached_module.h"
#include "zero/torch/engine_control.h"

namespace zero {

Engine attach(torch::nn::Module& module, World& world, AttachOptions options) {
  return attach(tensors_of(module), world, std::move(options));
}

Engine attach(ModelTensors model, World& world, AttachOptions options) {
  return attach(std::move(model), world, std::move(options), {});
}

Engine attach(ModelTensors model, World& world, AttachOptions options, const EngineHost& host) {
  require_numbers(options);
  model = with_quantised_buffers(std::move(model));
  options = with_weights_of_owners(std::move(options), world.communicator(), world.local_size());
  return Engine(std::make_unique<AttachedModule>(model, world, std::move(options), host));
}

void Engine::End::operator()(AttachedModule* attached) const {
  std::unique_ptr<AttachedModule> owner(attached);
  if (attached->values().in_child()) keep_forever(std::move(owner));
}

Engine::Engine(std::unique_ptr<AttachedModule> attached) : attached_(attached.release()) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

AttachedModule& Engine::attached() const {
  if (attached_ == nullptr)
    throw ConfigError("attach", "detached", "this engine has ended: it was detached, or moved from",
                      "attach the module again");
  attached_->values().refuse_in_child();
  return *attached_;
}

torch::Tensor Engine::scaled(const torch::Tensor& loss) {
  const double scale = attached().engine().scale_loss();
  if (scale == 1) return loss;
  const bool half = loss.scalar_type() == at::kHalf || loss.scalar_type() == at::kBFloat16;
  return (half ? loss.to(at::kFloat) : loss) * scale;
}

void Engine::begin_micro_batch(int number) {
  const Inside inside(attached());
  inside->steps().drop_zeroed();
  inside->engine().begin_micro_batch(number);
}

StepReport Engine::step() {
  return step(learning_rate(attached().engine().resources().options.optimizer));
}
StepReport Engine::step(double lr, const StepLimits& limits) {
  return step(StepRates{.lr = lr}, limits);
}
StepReport Engine::step(const StepRates& rates, const StepLimits& limits) {
  return Inside(attached())->steps().step(rates, limits);
}

void Engine::discard_gradients() {
  Inside(attached())->steps().discard_gradients();
}

void Engine::serve() {
  attached().values().require();
  const EngineProgress progress = attached().engine().states().progress();
  if (!attached().role().run_without_steps(progress.steps + progress.skipped))
    throw ConfigError("serve", "", "called on a rank that is not a server",
                      "call it only on the first sync.servers ranks");
}

void Engine::merge_copies() {
  const Inside inside(attached());
  inside->states();  // throws if there are no values, or if a parameter was replaced
  inside->engine().states().merge();
}

std::int64_t Engine::offload_states(const MovedStates& which) {
  const Inside inside(attached());
  inside->states();  // throws if there are no values, or if a parameter was replaced
  return inside->engine().offload_states(which);
}

std::int64_t Engine::reload_states() {
  const Inside inside(attached());
  inside->states();
  return inside->engine().reload_states();
}

GatheredScope Engine::gathered(const torch::nn::Module& module, int source_rank) {
  return {attached(), attached().parameters().units_of(module.parameters(), module.name()), source_rank};
}
GatheredScope Engine::gathered(const std::vector<torch::Tensor>& tensors, int source_rank) {
  return {attached(), attached().parameters().units_of(tensors, "tensors"), source_rank};
}
UsingScope Engine::use(const std::vector<torch::Tensor>& parameters) {
  return {attached(), parameters};
}
AveragedScope Engine::averaged() {
  return AveragedScope({&attached()});
}

FrozenScope Engine::frozen() {
  return FrozenScope(attached());
}

torch::Tensor Engine::gradient(const std::string& parameter) {
  return Inside(attached())->states().gradient(parameter);
}
std::map<std::string, double> Engine::grad_norms() {
  return Inside(attached())->states().gradient_norms();
}
torch::Tensor Engine::full_state(const std::string& parameter, const std::string& state) {
  return Inside(attached())->states().full(parameter, state);
}
StateShard Engine::state_shard(const std::string& parameter, const std::string& state) {
  return Inside(attached())->states().shard(parameter, state);
}
std::vector<std::string> Engine::state_names(const std::string& parameter) const {
  return attached().states().names_of(parameter);
}

std::vector<std::string> Engine::state_names() const {
  return attached().engine().states().names();
}
void Engine::for_each_parameter(const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                                bool full_precision) {
  Inside(attached())->states().for_each_parameter(visit, full_precision);
}
void Engine::export_weights(const std::filesystem::path& path, bool full_precision,
                            const std::set<std::string>& left_out) {
  const Inside inside(attached());
  AttachedStates& states = inside->states();
  if (!inside->scopes().trains_apart()) return states.export_weights(path, full_precision, left_out);
  AveragedScope shared({&attached()});
  try {
    states.export_weights(path, full_precision, left_out);
  } catch (const IoError&) {  // on every rank
    shared.end();
    throw;
  }
}

void Engine::save(const std::filesystem::path& path) {
  control().begin_save(path, {}, SaveMode::kSync)->wait();
}
LoadedCheckpoint Engine::load(const std::filesystem::path& path) {
  return Inside(attached())->checkpoints_to_load().load(path, FileCalls::kernel());
}

void Engine::detach() {
  Inside(attached())->detach();
  attached_.reset();
}
void Engine::abandon() {
  attached().abandon();
}

EngineReport Engine::report() const {
  return attached().engine().report();
}
const std::vector<ParamSpec>& Engine::parameters() const {
  return attached().engine().specs();
}
EngineControl Engine::control() const {
  return EngineControl(attached());
}

}  // namespace zero
