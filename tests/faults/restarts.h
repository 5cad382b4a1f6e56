// Restart: one restart in the output of `zero train` (train.log_every = 1). It has the step from which the run
// continued, the last step before, and the newest checkpoint on disk.
//
//   for (const Restart& restart : restarts_in(command.text())) EXPECT_LE(restart.repeated(), memory_every);
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace zero {

struct Restart {
  std::int64_t done = 0;     // last printed step; more may have been done
  std::int64_t on_disk = 0;  // step of the newest printed checkpoint
  std::int64_t from = 0;     // the step after which the run continued; 0: it began again
  std::int64_t repeated() const { return done - from; }
};

// The restarts of one command, or of several in a row.
inline std::vector<Restart> restarts_in(const std::string& text) {
  std::vector<Restart> restarts;
  std::int64_t done = 0, on_disk = 0;
  const auto went_on_from = [&](std::int64_t step) {
    restarts.push_back({.done = done, .on_disk = on_disk, .from = step});
    done = step;
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    long long step = 0;
    if (std::sscanf(line.c_str(), "continuing after step %lld of", &step) == 1) went_on_from(step);
    if (std::sscanf(line.c_str(), "checkpoint: step %lld,", &step) == 1)
      on_disk = std::max<std::int64_t>(on_disk, step);
    if (std::sscanf(line.c_str(), "step %lld/", &step) != 1) continue;
    if (step <= done) went_on_from(step - 1);  // it began again without saying so
    done = step;
  }
  return restarts;
}

}  // namespace zero
