// kernel_target(): returns the kernels' instruction set on this machine: "AVX2", "AVX3", "NEON", "SCALAR" ... Local.
#pragma once

#include <string>

namespace zero {

std::string kernel_target();

}  // namespace zero
