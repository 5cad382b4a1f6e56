// AdamW, Adam, SGD, Lion, LAMB and others: options of update rules, rules of your own, learning rates.
//
//   {.optimizer = zero::AdamW{.lr = 3e-4, .weight_decay = 0.1}}                          // in AttachOptions
//   zero::lr_at({.kind = zero::LrKind::kCosine, .lr = 1e-3, .warmup = 100, .steps = 2000}, step)
#pragma once

#include "zero/optim/lr_schedule.h"
#include "zero/optim/rule_registry.h"
