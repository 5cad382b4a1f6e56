// A Python that has torch, transformers and safetensors: python3, or what ZERO_TEST_PYTHON names.
//
//   const auto python = transformers_python();
//   if (!python) GTEST_SKIP() << kNoTransformers;
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace zero {

inline constexpr const char* kNoTransformers = "python3 has no transformers; ZERO_TEST_PYTHON may name another";

inline std::optional<std::string> transformers_python() {
  const char* const named = std::getenv("ZERO_TEST_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  const std::string line = python + " -c 'import torch, transformers, safetensors' >/dev/null 2>&1";
  if (std::system(line.c_str()) != 0) return std::nullopt;
  return python;
}

}  // namespace zero
