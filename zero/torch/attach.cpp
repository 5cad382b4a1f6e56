#include "zero/torch/attach.h"

#include "zero/base/error/error.h"
#include "zero/engine/options/option_numbers.h"
#include "zero/engine/states/shard_weights.h"
#include "zero/torch/attach_seams.h"
#include "zero/torch/attached_module.h"
#include "zero/torch/engine_control.h"

namespace zero {

Attachment attach(torch::nn::Module& module, World& world, AttachOptions options) {
  return attach(tensors_of(module), world, std::move(options));
}

Attachment attach(ModelTensors model, World& world, AttachOptions options) {
  return attach(std::move(model), world, std::move(options), {});
}

Attachment attach(ModelTensors model, World& world, AttachOptions options, const EngineSeams& seams) {
  require_numbers(options);
  model = with_quantised_buffers(std::move(model));
  options = with_shard_weights(std::move(options), world.communicator(), world.local_size());
  return Attachment(std::make_unique<AttachedModule>(model, world, std::move(options), seams));
}

void Attachment::End::operator()(AttachedModule* attached) const {
  std::unique_ptr<AttachedModule> owner(attached);
  if (attached->in_child()) keep_forever(std::move(owner));
}

Attachment::Attachment(std::unique_ptr<AttachedModule> attached) : attached_(attached.release()) {}
Attachment::Attachment(Attachment&&) noexcept = default;
Attachment& Attachment::operator=(Attachment&&) noexcept = default;
Attachment::~Attachment() = default;

AttachedModule& Attachment::attached() const {
  if (attached_ == nullptr)
    throw ConfigError("attach", "detached", "this engine has ended: it was detached, or moved from",
                      "attach the module again");
  attached_->refuse_in_child();
  return *attached_;
}

torch::Tensor Attachment::scaled(const torch::Tensor& loss) {
  const double scale = attached().engine().scale_loss();
  if (scale == 1) return loss;
  const bool half = loss.scalar_type() == at::kHalf || loss.scalar_type() == at::kBFloat16;
  return (half ? loss.to(at::kFloat) : loss) * scale;
}

void Attachment::begin_micro_batch(int number) {
  const Inside inside(attached());
  inside->drop_zeroed();
  inside->engine().begin_micro_batch(number);
}

StepReport Attachment::step() {
  return step(learning_rate(attached().engine().resources().options.optimizer));
}
StepReport Attachment::step(double lr, const StepLimits& limits) {
  return step(StepRates{.lr = lr}, limits);
}
StepReport Attachment::step(const StepRates& rates, const StepLimits& limits) {
  return Inside(attached())->step(rates, limits);
}

void Attachment::discard_gradients() {
  Inside(attached())->discard_gradients();
}

void Attachment::serve() {
  attached().require_loaded();
  const EngineProgress progress = attached().engine().states().progress();
  attached().role().serve(progress.steps + progress.skipped);
}

void Attachment::merge_copies() {
  const Inside inside(attached());
  inside->states();  // throws if there are no values, or if a parameter was replaced
  inside->engine().states().merge();
}

GatheredScope Attachment::gathered(const torch::nn::Module& module, int source_rank) {
  return {attached(), attached().parameters().units_of(module.parameters(), module.name()), source_rank};
}
GatheredScope Attachment::gathered(const std::vector<torch::Tensor>& tensors, int source_rank) {
  return {attached(), attached().parameters().units_of(tensors, "tensors"), source_rank};
}
UsingScope Attachment::use(const std::vector<torch::Tensor>& parameters) {
  return {attached(), parameters};
}
AveragedScope Attachment::averaged() {
  return AveragedScope(attached());
}

FrozenScope Attachment::frozen() {
  return FrozenScope(attached());
}

torch::Tensor Attachment::gradient(const std::string& parameter) {
  return Inside(attached())->states().gradient(parameter);
}
std::map<std::string, double> Attachment::grad_norms() {
  return Inside(attached())->states().gradient_norms();
}
torch::Tensor Attachment::full_state(const std::string& parameter, const std::string& state) {
  return Inside(attached())->states().full(parameter, state);
}
StateShard Attachment::state_shard(const std::string& parameter, const std::string& state) {
  return Inside(attached())->states().shard(parameter, state);
}
std::vector<std::string> Attachment::state_names(const std::string& parameter) const {
  return attached().states().names_of(parameter);
}

std::vector<std::string> Attachment::state_names() const {
  return attached().engine().states().names();
}
void Attachment::for_each_parameter(const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                                    bool full_precision) {
  Inside(attached())->states().for_each_parameter(visit, full_precision);
}
void Attachment::export_weights(const std::filesystem::path& path, bool full_precision) {
  const Inside inside(attached());
  if (!inside->scopes().trains_apart()) return inside->states().export_weights(path, full_precision);
  const AveragedScope shared(attached());
  inside->states().export_weights(path, full_precision);
}

void Attachment::save(const std::filesystem::path& path) {
  control().begin_save(path, {}, SaveMode::kSync)->wait();
}
LoadedCheckpoint Attachment::load(const std::filesystem::path& path) {
  return Inside(attached())->load(path, FileCalls::kernel());
}

void Attachment::detach() {
  Inside(attached())->detach();
  attached_.reset();
}
void Attachment::abandon() {
  attached().abandon();
}

EngineReport Attachment::report() const {
  return attached().engine().report();
}
const std::vector<ParamSpec>& Attachment::parameters() const {
  return attached().engine().specs();
}
EngineControl Attachment::control() const {
  return EngineControl(attached());
}

}  // namespace zero
