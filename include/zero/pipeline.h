// attach_pipeline(), PipelineEngine: a model in sections over ranks, unmodified.
//
//   auto engine = zero::attach_pipeline(*model, world, {.stage = 2, .accumulate = 4}, {.pipeline = 2});
//   std::vector<double> losses = engine.passes([&](int micro) { return loss_of(*model, batches[micro]) / 4; });
//   engine.step();
#pragma once

#include "zero/torch/pipeline/attach_pipeline.h"
#include "zero/torch/pipeline/together.h"
