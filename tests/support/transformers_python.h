// transformers_python(): a Python with torch, transformers and safetensors.
//
//   const auto python = transformers_python();
//   if (!python) GTEST_SKIP() << kNoTransformers;
#pragma once

#include "tests/support/python_with.h"

namespace zero {

inline constexpr const char* kNoTransformers = "python3 has no transformers; ZERO_TEST_PYTHON may name another";

inline std::optional<std::string> transformers_python() {
  return python_with("torch, transformers, safetensors");
}

}  // namespace zero
