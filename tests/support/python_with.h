// python_with(): a Python that can import some modules: python3, or the program in ZERO_TEST_PYTHON.
//
//   const auto python = python_with("safetensors, numpy");
//   if (!python) GTEST_SKIP() << no_python_with("safetensors, numpy");
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace zero {

inline bool can_import(const std::string& python, const std::string& modules) {
  return std::system((python + " -c 'import " + modules + "' >/dev/null 2>&1").c_str()) == 0;
}

inline std::string test_python() {
  const char* const named = std::getenv("ZERO_TEST_PYTHON");
  return named != nullptr ? named : "python3";
}

inline std::optional<std::string> python_with(const std::string& modules) {
  const std::string python = test_python();
  return can_import(python, modules) ? std::optional(python) : std::nullopt;
}

inline std::string no_python_with(const std::string& modules) {
  return test_python() + " cannot import " + modules + "; ZERO_TEST_PYTHON may name another";
}

}  // namespace zero
