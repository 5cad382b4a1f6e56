// deferred(): a module that is built without memory, unit by unit, when it is attached.
//
//   auto model  = zero::deferred([] { return std::make_shared<Net>(); }, /*seed=*/1337);
//   auto engine = zero::attach(*model, world, {.stage = 3});
#pragma once

#include "zero/torch/deferred/deferred.h"
