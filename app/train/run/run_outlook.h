// look_ahead(): what a run would do in its folder now: begin, go on, or nothing as it is done. Nothing changes there.
//
//   const RunOutlook outlook = look_ahead(job);
//   outlook.line       // "goes on after step 500 of 2,000"; empty: it begins
//   outlook.step       // steps that are done already
//
// Local: this process alone looks, before there are ranks. Throws what the run would: ConfigError under "run.dir" or
// "train.steps". In-memory checkpoints, which a launcher has while it lives, are not looked for.
#pragma once

#include <cstdint>
#include <string>

#include "app/train/train_job.h"

namespace zero {

struct RunOutlook {
  std::int64_t step = 0;
  bool is_done = false;
  std::string line;
};

RunOutlook look_ahead(const TrainJob& job);

}  // namespace zero
