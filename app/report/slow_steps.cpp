#include "app/report/slow_steps.h"

#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/text/bytes.h"

namespace zero {

MachineLoad machine_load() {
  double last_minute = 0;
  const bool known = ::getloadavg(&last_minute, 1) == 1;
  return {.running = known ? last_minute : 0, .cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))};
}

bool SlowSteps::count(double seconds) {
  if (expected_ <= 0 || said_) return false;
  if (seconds <= kFarAbove * expected_) {
    in_a_row_ = 0;
    sum_ = 0;
    return false;
  }
  sum_ += seconds;
  said_ = ++in_a_row_ == kInARow;
  return said_;
}

std::string SlowSteps::note(std::int64_t step, const MachineLoad& load, int threads) const {
  const bool busy = load.running > load.cores + 0.5;
  const std::string why =
      busy ? fmt::format(
                 "{:.1f} processes want to run on {} cores: threads wait for each other while other processes use "
                 "their cores{}",
                 load.running, load.cores, threads > 1 ? "; --run.threads 1 waits for none" : "")
           : "the machine has become slower, or waits for a disk or another rank; --run.timeline shows the reason";
  return fmt::format("note: the {} steps up to step {} took {} each instead of the predicted {}: {}", in_a_row_, step,
                     format_seconds(sum_ / in_a_row_), format_seconds(expected_), why);
}

}  // namespace zero
