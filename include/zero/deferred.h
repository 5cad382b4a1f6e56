// deferred(): a module whose parameters have no memory before attach(), which gives them values unit by unit.
//
//   auto model  = zero::deferred([] { return std::make_shared<Net>(); }, /*seed=*/1337);
//   auto engine = zero::attach(*model, world, {.stage = 3});
#pragma once

#include "zero/torch/deferred/deferred.h"
