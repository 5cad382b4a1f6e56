#include "zero/engine/outer_steps.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/comm/collectives.h"
#include "zero/engine/options/outer_fragments.h"
#include "zero/engine/outer/outer_pass.h"
#include "zero/engine/outer/outer_sum.h"
#include "zero/engine/states/replicas.h"

namespace zero {

// -1: all units.
std::vector<int> OuterSteps::fragment(int number) const {
  return units_of_fragment(parts_.state.units(), number < 0 ? 1 : parts_.options.local->fragments, std::max(number, 0));
}

void OuterSteps::anchor(std::int64_t done) {
  if (parts_.options.local && done == 0)
    parts_.executor.run_rule(*make_anchoring(*parts_.rule), all_units(), /*gathers=*/false);
}

bool OuterSteps::step_done(std::int64_t done, std::int64_t num_updates) {
  if (!parts_.options.local) return false;
  const LocalSteps& local = *parts_.options.local;
  apart_.assign(static_cast<std::size_t>(local.fragments), true);
  restored_ = false;
  const int ends = fragment_that_ends(local, done), begins = fragment_that_begins(local, done);
  if (local.overlap == 0) {
    if (ends < 0) return false;
    statistics_.outer_step({.fragment = ends, .begins = true, .ends = true}, [&] {
      update_times_.settle();
      merge_units(fragment(ends), num_updates);
    });
    apart_[static_cast<std::size_t>(ends)] = false;
    return true;
  }
  if (ends >= 0 || begins >= 0) statistics_.outside_training([this] { update_times_.settle(); });
  continue_exchange();
  if (ends >= 0) {
    end_exchange();
    statistics_.outer_step({.fragment = ends, .ends = true}, [&] {
      parts_.executor.run_rule(*make_mixing(*parts_.rule, local.mix), fragment(ends), /*gathers=*/true);
    });
  }
  if (begins >= 0) {
    statistics_.outer_step({.fragment = begins, .begins = true},
                           [&] { begin_exchange(fragment(begins), num_updates); });
  }
  return ends >= 0;
}

void OuterSteps::merge(std::int64_t done, std::int64_t num_updates) {
  if (!parts_.options.local) return;
  if (std::exchange(restored_, false)) find_equal_copies();
  end_exchange();
  const auto merge_fragment = [&](int number, bool has_new_anchor) {
    const auto place = static_cast<std::size_t>(number);
    if (!apart_[place]) return;
    apart_[place] = false;
    statistics_.outer_step({.fragment = number, .begins = !has_new_anchor, .ends = true}, [&] {
      update_times_.settle();
      if (has_new_anchor) {
        parts_.executor.run_rule(*make_mixing(*parts_.rule, 0), fragment(number), /*gathers=*/true);
      } else {
        merge_units(fragment(number), num_updates);
      }
    });
  };
  // The fragment in transfer comes first, because its outer step has begun before those of the others.
  const int unmixed = fragment_in_transfer(*parts_.options.local, done);
  if (unmixed >= 0 && !apart_.empty()) merge_fragment(unmixed, /*has_new_anchor=*/true);
  for (int number = 0; number < static_cast<int>(apart_.size()); ++number)
    merge_fragment(number, /*has_new_anchor=*/false);
}

// A checkpoint may have been saved after merge_copies() in the middle of a round.
void OuterSteps::find_equal_copies() {
  for (std::size_t place = 0; place < apart_.size(); ++place) {
    if (!apart_[place]) continue;
    const bool differs = std::ranges::any_of(fragment(static_cast<int>(place)),
                                             [this](int unit) { return !weights_are_anchor(parts_.state, unit); });
    apart_[place] = all_reduce_max(parts_.comms.run, differs ? 1 : 0) == 1;
  }
}

void OuterSteps::merge_units(const std::vector<int>& units, std::int64_t num_updates) {
  const OuterStep outer(*parts_.rule, *parts_.options.local, parts_.comms.mesh.copies);
  OuterSum sum(parts_.state, parts_.comms, num_updates, parts_.ledger, parts_.options.timeline);
  OuterPass pass(parts_.updater, parts_.state, outer);
  parts_.executor.update_with(units, /*gathers=*/true, [&](int unit) { pass.merge(unit, sum); });
  parts_.gatherer.finish();
}

void OuterSteps::begin_exchange(std::vector<int> units, std::int64_t num_updates) {
  ZERO_CHECK(!exchange_, "a fragment's exchange begins during another exchange");
  const OuterStep outer(*parts_.rule, *parts_.options.local, parts_.comms.mesh.copies);
  exchange_.emplace(
      parts_.state, parts_.comms,
      OuterExchange::Plan{.units = std::move(units), .overlap = parts_.options.local->overlap, .step = num_updates},
      parts_.ledger, parts_.options.timeline);
  OuterPass pass(parts_.updater, parts_.state, outer);
  for (const int unit : exchange_->units()) pass.take_differences(unit, *exchange_);
  exchange_->send();
}

void OuterSteps::continue_exchange() {
  if (exchange_) statistics_.outer_step({}, [this] { exchange_->go_on(); });
}

void OuterSteps::end_exchange() {
  if (!exchange_) return;
  statistics_.outer_step({}, [this] {
    const OuterStep outer(*parts_.rule, *parts_.options.local, parts_.comms.mesh.copies);
    exchange_->arrive();
    OuterPass pass(parts_.updater, parts_.state, outer);
    for (const int unit : exchange_->units()) pass.move_anchors(unit, *exchange_);
    exchange_.reset();
  });
}

void OuterSteps::finish() {
  end_exchange();
}

void OuterSteps::restore(std::int64_t done) {
  if (!parts_.options.local) return;
  const LocalSteps& local = *parts_.options.local;
  apart_.assign(static_cast<std::size_t>(local.fragments), done > 0);
  restored_ = true;
  const int merged = local.overlap == 0 ? fragment_that_ends(local, done) : -1;
  if (merged >= 0) apart_[static_cast<std::size_t>(merged)] = false;
}

}  // namespace zero
