// zero.cpp: everything a program needs to train its own module with ZeRO. See zero/torch/attach.h for the loop.
#pragma once

#include <torch/torch.h>

#include "zero/base/process/chrome_trace.h"
#include "zero/base/error/error.h"
#include "zero/torch/activations/activation_store.h"
#include "zero/torch/attach.h"
#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/deferred/deferred.h"
#include "zero/torch/save_all.h"
#include "zero/comm/transport/world.h"
