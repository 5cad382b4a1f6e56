// PipelinedModule::step(): all sections of a line update, or all skip. discard_gradients(): all sections drop.
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/engine/options/option_numbers.h"
#include "zero/torch/pipeline/pipelined_module.h"

namespace zero {
namespace {

// One position's findings about a step, which it sends to the other positions of its line. In the message its sums of
// squares follow, one for each copy of the model.
struct PositionStep {
  std::int64_t num_non_finite = 0;
  double lr = 0;
  std::uint64_t rates_hash = 0;
  double max_loss = 0, max_grad_norm = 0;
  double loss = 0;
  std::int64_t has_loss = 0;
};

PositionStep findings_of(const StepSync& verdict, const StepRates& rates) {
  return {.num_non_finite = verdict.num_non_finite,
          .lr = rates.lr,
          .rates_hash = hash_of(rates),
          .max_loss = verdict.max_loss,
          .max_grad_norm = verdict.max_grad_norm,
          .loss = verdict.loss.value_or(0),
          .has_loss = verdict.loss ? 1 : 0};
}

// Compares positions. The ranks of a position have already compared their rates with each other.
void require_same_rates(const PositionStep& theirs, const PositionStep& first, int rank) {
  constexpr std::string_view kRemedy =
      "give every rank the same numbers; a schedule that follows a loss must use its mean over ranks";
  if (theirs.lr != first.lr)
    throw ConfigError("step", fmt::format("rank {}", rank),
                      fmt::format("its learning rate is {}, and rank 0's is {}", theirs.lr, first.lr), kRemedy);
  if (theirs.rates_hash != first.rates_hash)
    throw ConfigError("step", fmt::format("rank {}", rank),
                      "its learning rates or weight decays of groups differ from those of rank 0", kRemedy);
}

}  // namespace

double PipelinedModule::learning_rate() const {
  return zero::learning_rate(options_.optimizer);
}

// Sums are exact, so the norm has the bits of one engine over all sections. All positions take the limits and the loss
// of position 0, as all ranks of one engine take those of rank 0. So all positions come to the same verdict.
void PipelinedModule::add_other_positions(StepSync& verdict, const StepRates& rates) const {
  const std::size_t copies = verdict.exact_squares.size();
  const std::size_t bytes = sizeof(PositionStep) + copies * sizeof(ExactSum);
  std::vector<std::byte> mine(bytes), all(bytes * static_cast<std::size_t>(line_comm_->world()));
  const PositionStep own = findings_of(verdict, rates);
  std::memcpy(mine.data(), &own, sizeof(own));
  std::memcpy(mine.data() + sizeof(own), verdict.exact_squares.data(), copies * sizeof(ExactSum));
  all_gather(*line_comm_, mine, all, {.control = true});
  PositionStep first;
  bool all_have_losses = true;
  for (int position = 0; position < line_comm_->world(); ++position) {
    const std::byte* const from = all.data() + static_cast<std::size_t>(position) * bytes;
    PositionStep theirs;
    std::memcpy(&theirs, from, sizeof(theirs));
    if (position == 0) first = theirs;
    require_same_rates(theirs, first, position * grid_.data_ranks);
    all_have_losses = all_have_losses && theirs.has_loss == 1;
    if (position == line_comm_->rank()) continue;
    StepSync other;
    other.sum_squares.resize(copies);
    other.exact_squares.resize(copies);
    std::memcpy(other.exact_squares.data(), from + sizeof(theirs), copies * sizeof(ExactSum));
    other.num_non_finite = theirs.num_non_finite;
    add_part(verdict, other);
  }
  verdict.max_loss = first.max_loss;
  verdict.max_grad_norm = first.max_grad_norm;
  verdict.loss = all_have_losses ? std::optional(first.loss) : std::nullopt;
}

StepReport PipelinedModule::step(const StepRates& rates, const StepLimits& limits) {
  require_attached("step");
  if (grid_.pipeline == 1) return modules_.front()->steps().step(rates, limits);
  std::vector<std::pair<AttachedModule*, StepSync>> parts;
  for (const auto& module : modules_)
    if (module != nullptr) parts.emplace_back(module.get(), module->steps().agree(rates, limits));
  StepSync whole = parts.front().second;
  for (std::size_t i = 1; i < parts.size(); ++i) add_part(whole, parts[i].second);
  add_other_positions(whole, rates);
  StepReport report;
  for (auto& [module, verdict] : parts) {
    verdict.sum_squares = whole.sum_squares;
    verdict.exact_squares = whole.exact_squares;
    verdict.num_non_finite = whole.num_non_finite;
    verdict.loss = whole.loss;
    verdict.max_loss = whole.max_loss;
    verdict.max_grad_norm = whole.max_grad_norm;
    const StepReport of_section = module->steps().carry_out(verdict, rates);
    const std::string bad = report.bad_parameter;
    report = of_section;
    if (report.bad_parameter.empty()) report.bad_parameter = bad;
  }
  if (whole.num_non_finite == 0) return report;
  for (const std::string& named : all_gather_text(*line_comm_, report.bad_parameter))
    if (!named.empty()) {
      report.bad_parameter = named;
      break;
    }
  return report;
}

void PipelinedModule::discard_gradients() {
  if (grid_.pipeline > 1 && forward_.operators.empty()) return;
  require_attached("discard_gradients");
  for (const auto& module : modules_)
    if (module != nullptr) module->steps().discard_gradients();
}

}  // namespace zero
