// Error: the base of all errors that zero.cpp throws. The kind of error says who can fix it:
//
//   ConfigError   the user: an impossible option or use of the library (exit 2); options are checked before
//                 anything is allocated or written
//   CommError     the operator of the ranks: a rank died, is late or calls another collective (exit 3)
//   IoError       the operator of the machine: a read or write failed, or a file is damaged (exit 4)
//   DeviceError   the operator of the machine: a GPU or its driver failed (exit 4)
//   InternalError zero.cpp: thrown by ZERO_CHECK
//
// Every message fits one screen, and a ConfigError ends with a remedy. Code may catch an error and continue only if
// there is another way. Such ways are an older checkpoint, another attempt at the next save, a plan without a solver.
// It tells the user if that changes the run.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace zero {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// what() is "KEY = VALUE: REASON\n  REMEDY". `key` names an option ("zero.stage"), a parameter or a file.
class ConfigError : public Error {
 public:
  ConfigError(std::string_view key, std::string_view value, std::string_view reason, std::string_view remedy);
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

// what() names the rank at fault if it is known; otherwise `rank` is -1.
class CommError : public Error {
 public:
  CommError(int rank, std::string_view operation, std::string_view reason);
  int rank() const { return rank_; }

 private:
  int rank_;
};

// `error_number`: an errno value, or 0 if the system did not fail (a damaged file). `unit`: the unit whose states were
// read or written; -1: none.
class IoError : public Error {
 public:
  IoError(std::string_view path, std::string_view operation, int error_number, std::string_view detail = "",
          int unit = -1);
  // Returns the same error with `context` before its text: "rank 1: unit h.0: PATH: ...".
  IoError within(std::string_view context) const;
  int error_number() const { return error_number_; }
  int unit() const { return unit_; }

 private:
  IoError(const std::string& text, int error_number, int unit);

  int error_number_;
  int unit_;
};

// what() names the device and the operation.
class DeviceError : public Error {
 public:
  using Error::Error;
};

class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace zero
