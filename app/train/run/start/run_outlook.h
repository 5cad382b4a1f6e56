// look_ahead(): tells what a run would do in its folder now: begin, continue, or nothing because it is done.
//
//   const RunOutlook outlook = look_ahead(job);
//   outlook.line       // "goes on after step 500 of 2,000"; empty: it begins
//   outlook.step       // steps that are done already
//
// It changes nothing in the folder. Local: only this process reads, before there are ranks. Throws as the run would:
// ConfigError under "run.dir" or "train.steps". In-memory checkpoints, which exist while a launcher lives, are not
// considered.
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
