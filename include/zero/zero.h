// zero.h: all of the library that a program needs to train its own module with ZeRO.
//
//   #include <zero/zero.h>
//
//   auto world  = zero::World::from_environment();
//   auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 3e-4}});
//
// README.md in this folder says what each of the other headers is for. They compile faster than this one, which
// includes torch/torch.h.
#pragma once

#include <zero/activations.h>
#include <zero/attach.h>
#include <zero/checkpoints.h>
#include <zero/collectives.h>
#include <zero/deferred.h>
#include <zero/errors.h>
#include <zero/optimizers.h>
#include <zero/pipeline.h>
#include <zero/timeline.h>
#include <zero/weights.h>
#include <zero/world.h>

#include <torch/torch.h>
