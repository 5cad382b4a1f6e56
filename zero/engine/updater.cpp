#include "zero/engine/updater.h"

#include <algorithm>

#include "zero/base/check.h"
#include "zero/base/clock.h"

namespace zero {
namespace {

constexpr std::int64_t kGrain = 1 << 18;  // elements a thread takes at a time

}  // namespace

Updater::Updater(ShardedState& state, const UpdateRule& rule, const std::vector<ParamSpec>& specs,
                 const EngineOptions& options)
    : state_(state), rule_(rule), steps_(specs.size(), 0), present_(specs.size(), false), team_(options.threads) {
  for (const ParamSpec& spec : specs) {
    Group group{.weight_decay = spec.shape.size() >= 2 ? weight_decay(options.optimizer) : 0.0};
    const auto match = std::find_if(options.groups.begin(), options.groups.end(),
                                    [&](const ParameterGroup& g) { return g.matches(spec); });
    if (match != options.groups.end()) {
      group = {match->weight_decay, match->lr_scale};
    } else if (!options.groups.empty() && spec.trainable) {
      throw ConfigError("groups", spec.name, "no parameter group takes this parameter",
                        "end the list with a group that takes everything");
    }
    groups_.push_back(group);
  }
}

void Updater::begin_step(const std::vector<bool>& present) {
  present_ = present;
  for (std::size_t param = 0; param < present.size(); ++param) steps_[param] += present[param] ? 1 : 0;
}

void Updater::update(int unit, const std::byte* gradient, DType dtype, double scale, double lr) {
  const double start = monotonic_seconds();
  const Unit& description = state_.unit(unit);
  const Shard range = state_.update_range(unit);
  const bool low_precision = description.dtype != DType::kFloat32;
  std::byte* held = state_.updated_parameter(unit);
  float* parameter = low_precision ? state_.master(unit) : reinterpret_cast<float*>(held);
  for (const Slice& slice : description.slices) {
    const auto param = static_cast<std::size_t>(slice.param);
    const SlicePart part = overlap(slice, range);
    if (part.numel == 0 || !present_[param]) continue;
    const UpdateScalars scalars{.step = steps_[param],
                                .lr = lr * groups_[param].lr_scale,
                                .gradient_scale = scale,
                                .weight_decay = groups_[param].weight_decay};
    const std::int64_t first = part.offset - range.offset;
    team_.for_range(first, first + part.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
      UpdateSpan span{.parameter = parameter + begin,
                      .gradient = gradient + begin * static_cast<std::int64_t>(size_of(dtype)),
                      .gradient_dtype = dtype,
                      .numel = end - begin};
      if (float* moment = state_.moment(unit, 0)) span.first_moment = moment + begin;
      if (float* moment = state_.moment(unit, 1)) span.second_moment = moment + begin;
      if (low_precision) span.low_precision = reinterpret_cast<BFloat16Bits*>(held) + begin;
      rule_.update(span, scalars);
    });
  }
  seconds_ += monotonic_seconds() - start;
}

}  // namespace zero
