// A variable of the environment for the length of a scope, however that ends; then it is what it was before.
//
//   const EnvironmentVariable level("ZERO_LOG_LEVEL", "warn");
//
// Before other threads begin: the environment is the process's.
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
