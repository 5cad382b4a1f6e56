// to_dtype(), to_scalar_type(): convert between torch's element types and DType.
#pragma once

#include <string>

#include <c10/core/ScalarType.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/dtype.h"

namespace zero {

// Throws ConfigError with the parameter's name for an unsupported type.
inline DType to_dtype(c10::ScalarType type, const std::string& parameter) {
  if (type == c10::ScalarType::Float) return DType::kFloat32;
  if (type == c10::ScalarType::BFloat16) return DType::kBFloat16;
  if (type == c10::ScalarType::Half) return DType::kFloat16;
  throw ConfigError("attach", parameter, std::string("its type is ") + c10::toString(type),
                    "parameters are fp32, bf16 or fp16: convert the module first");
}

constexpr c10::ScalarType to_scalar_type(DType dtype) {
  return dtype == DType::kFloat32    ? c10::ScalarType::Float
         : dtype == DType::kBFloat16 ? c10::ScalarType::BFloat16
                                     : c10::ScalarType::Half;
}

}  // namespace zero
