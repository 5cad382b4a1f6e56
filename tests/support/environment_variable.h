// EnvironmentVariable: sets a variable of the environment for a scope, and restores the previous value at its end.
//
//   const EnvironmentVariable level("ZERO_LOG_LEVEL", "warn");
//
// Use it before other threads start, because all threads share the environment.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace zero {

class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), /*overwrite=*/1);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;
  ~EnvironmentVariable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace zero
