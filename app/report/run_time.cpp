#include "app/report/run_time.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/text/bytes.h"

namespace zero {

RunTime run_time(const RunTimeNeed& need) {
  RunTime time;
  if (need.split_batches > 0) {
    std::int64_t on_the_way = 0;
    if (need.eval_every > 0 && need.steps > 0)
      on_the_way = (need.first_step + need.steps - 1) / need.eval_every - need.first_step / need.eval_every +
                   (need.compares ? 1 : 0);
    const std::int64_t batches =
        need.eval_batches == 0 ? need.split_batches : std::min(need.eval_batches, need.split_batches);
    time.evaluations = on_the_way + 1;
    time.evaluation_seconds =
        static_cast<double>((on_the_way * batches + need.split_batches) * need.passes) * need.batch_seconds;
  }
  time.total_seconds = static_cast<double>(need.steps) * need.step_seconds + time.evaluation_seconds;
  return time;
}

std::string run_time_text(const RunTimeNeed& need) {
  const RunTime time = run_time(need);
  std::string text = fmt::format("about {}: {} of {}", format_seconds(time.total_seconds),
                                 format_count(need.steps, "step"), format_seconds(need.step_seconds));
  if (time.evaluations > 0)
    text += fmt::format(", and {} of {}{}", format_count(time.evaluations, "evaluation"),
                        format_seconds(time.evaluation_seconds), time.evaluations > 1 ? " together" : "");
  return text;
}

}  // namespace zero
