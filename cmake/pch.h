// The precompiled header of every target that includes torch: torch/torch.h alone costs 15 s of compile time.
#include <fmt/format.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/library.h>
#include <torch/torch.h>
