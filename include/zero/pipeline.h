// attach_pipeline(), PipelineEngine: a model in sections over ranks, unmodified.
//
//   auto engine = zero::attach_pipeline(*model, world, {.stage = 2, .accumulate = 4}, {.pipeline = 2});
//   const auto loss = [&](int micro) { return loss_of(*model, batches[micro]); };
//   std::vector<double> losses = engine.passes(loss, /*parts=*/4);   // each loss counts a quarter
//   engine.step();
#pragma once

#include "zero/torch/pipeline/attach_pipeline.h"
#include "zero/torch/pipeline/forward/together.h"
