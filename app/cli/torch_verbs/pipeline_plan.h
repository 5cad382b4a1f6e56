// PipelineForecast: the sections of a model over the ranks of a line, and what each rank holds and sends.
//
//   const PipelineForecast forecast = forecast_pipeline(request, attach);
//   std::cout << forecast_text(forecast);            // or forecast_json(forecast).dump()
//
// Computed from shapes: the operators of one micro-batch run on the meta device. With parallel.schedule = auto, or with
// a cluster whose links count, each distinct operator is measured once on this machine. Local. Throws ConfigError under
// "parallel.sections" if the model has too few parts, and under the name of a flag that has no meaning for a pipeline.
// Also throws it under the keys of options and budgets with which a run would be refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "zero/engine/options/options.h"
#include "zero/plan/pipeline/plan_passes.h"
#include "zero/plan/pipeline/sections.h"

#include "app/cli/command/torch_entry.h"

namespace zero::cli {

struct PipelineForecast {
  std::string model;
  int lines = 1;
  int stage = 0;
  std::int64_t batch = 0;
  bool has_links = false;  // a cluster's file was given: its links count, and nothing else of it
  ForwardGraph graph;
  PlannedPasses passes;
  struct RankBytes {
    std::int64_t parameters = 0;  // number of elements of its sections
    PerTier<std::int64_t> states_on;
    std::int64_t transfers = 0;      // memory for transfers with the disk
    std::int64_t gathered = 0;       // units of its sections that are whole at once, at stage 3
    std::int64_t staging = 0;        // most for gradients before their reduction
    std::int64_t activations = 0;    // most at once (zero/plan/pipeline/activation_bytes.h)
    std::int64_t sent_crossing = 0;  // values and gradients, in a step
    std::int64_t sent_states = 0;    // by ZeRO, in a step
    // Returns the bytes of states in memory.
    std::int64_t states() const {
      std::int64_t sum = 0;
      for (const Tier tier : kAllTiers) sum += is_memory(tier) ? states_on[tier] : 0;
      return sum;
    }
    // Peaks of the parts may be at different times, so this is the most memory that a rank may need.
    std::int64_t total() const { return states() + transfers + gathered + staging + activations; }
  };
  std::vector<RankBytes> ranks;  // by position
  // The memory of the machine that needs most.
  struct Memory {
    int ranks = 1;  // of a machine
    std::int64_t needed = 0, free = 0;
    bool fits() const { return needed <= free; }
  };
  std::optional<Memory> memory;    // empty: the cluster's file has no `memory`
  std::vector<std::string> notes;  // sentences for the user
};

PipelineForecast forecast_pipeline(const PlanRequest& request, const AttachOptions& attach);
std::string forecast_text(const PipelineForecast& forecast);
nlohmann::ordered_json forecast_json(const PipelineForecast& forecast);

}  // namespace zero::cli
