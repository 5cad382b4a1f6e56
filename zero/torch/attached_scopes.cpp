#include "zero/torch/attached_scopes.h"

#include <exception>
#include <string>
#include <utility>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/torch/attached_module.h"
#include "zero/torch/seam/parameter_uses.h"

namespace zero {

GatheredScope::GatheredScope(AttachedModule& attached, std::vector<int> units, int source_rank)
    : attached_(attached),
      units_(std::move(units)),
      source_rank_(source_rank),
      exceptions_at_start_(std::uncaught_exceptions()) {
  const Inside inside(attached_);
  attached_.values().require();
  attached_.steps().drop_zeroed();
  const int world = attached_.engine().resources().comm.world();
  if (source_rank >= world)
    throw ConfigError("gathered(source_rank)", std::to_string(source_rank),
                      "there is no such rank among " + format_count(world, "rank"),
                      "use a rank of the run, or leave it out if all ranks write the same");
  attached_.scopes().gather(units_);
}

GatheredScope::~GatheredScope() noexcept(false) {
  if (attached_.values().in_child()) return;
  OpenScopes& scopes = attached_.scopes();
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    scopes.leave([&scopes, units = units_, source = source_rank_] { scopes.release(units, source); });
  } else {
    scopes.end_left();
    scopes.release(units_, source_rank_);
  }
}

namespace {

const std::vector<at::Tensor>& parameters_only(const AttachedModule& attached, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    const ParameterHandle* const handle = ParameterStorage::of(tensor);
    if (handle == nullptr || handle->owner != &attached)
      throw ConfigError("use", tensor.defined() ? tensor.toString() : "undefined",
                        "this tensor is no parameter of the attached model, and no view of such a parameter",
                        "pass parameters of the module that was attached");
  }
  return tensors;
}

}  // namespace

UsingScope::UsingScope(const std::vector<at::Tensor>& tensors) : uses_(std::make_unique<ParameterUses>()) {
  for (const at::Tensor& tensor : tensors) uses_->add(tensor, /*writes=*/false);
}

UsingScope::UsingScope(const AttachedModule& attached, const std::vector<at::Tensor>& parameters)
    : UsingScope(parameters_only(attached, parameters)) {}

UsingScope::~UsingScope() {
  if (made_here_.in_child()) keep_forever(std::move(uses_));
}

AveragedScope::AveragedScope(std::vector<AttachedModule*> attached)
    : attached_(std::move(attached)), exceptions_at_start_(std::uncaught_exceptions()) {
  for (AttachedModule* const module : attached_) {
    const Inside inside(*module);
    module->values().require();
    module->steps().drop_zeroed();
    module->scopes().exchange_averages();
  }
}

AveragedScope::~AveragedScope() noexcept(false) {
  if (std::uncaught_exceptions() == exceptions_at_start_) {
    end();
    return;
  }
  for (AttachedModule* const module : attached_) {
    OpenScopes& scopes = module->scopes();
    if (!module->values().in_child()) scopes.leave([&scopes] { scopes.exchange_averages(); });
  }
}

void AveragedScope::end() {
  for (AttachedModule* const module : std::exchange(attached_, {})) {
    if (module->values().in_child()) return;
    module->values().require();
    module->scopes().end_left();
    module->scopes().exchange_averages();
  }
}

FrozenScope::FrozenScope(AttachedModule& attached) : attached_(attached) {
  attached_.scopes().freeze();
}

FrozenScope::~FrozenScope() {
  attached_.scopes().thaw();
}

}  // namespace zero
