// kernel_target(): the instruction set that the kernels chose on this machine: "AVX2", "AVX3", "NEON", "SCALAR" ... Local.
#pragma once

#include <string>

namespace zero {

std::string kernel_target();

}  // namespace zero
