// checkpoint(), ActivationStore: activation checkpoints, and their inputs on the host or on disk.
//
//   y = zero::checkpoint(block, {x});                                // computed again in the backward pass
//   zero::ActivationStore store({.tier = zero::Tier::kDisk, .disk = {"/nvme0"}});
//   y = zero::checkpoint(block, {x}, store.checkpoint_options());
#pragma once

#include "zero/torch/activations/activation_store.h"
#include "zero/torch/activations/checkpoint.h"
