// attach(): ZeRO for any torch::nn::Module, its options, and the reports of its steps.
//
//   auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 3e-4}, .clip = 1.0});
//   loss.backward();
//   const zero::StepReport report = engine.step();
#pragma once

#include "zero/plan/units/leaves.h"
#include "zero/torch/attach.h"
