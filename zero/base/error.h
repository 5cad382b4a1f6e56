// Error: the base of all errors that zero.cpp throws. Each kind says who can put it right.
//
//   ConfigError   the user: an option or a use of the library that is not possible (exit 2). Options are checked before
//                 anything is allocated or written
//   CommError     whoever runs the ranks: a rank died, is late or calls another collective (exit 3)
//   IoError       whoever runs the machine: a read or write failed, or a file is damaged (exit 4)
//   DeviceError   whoever runs the machine: a GPU or its driver failed (exit 4)
//   InternalError zero.cpp: thrown by ZERO_CHECK
//
// Every message fits one screen; a ConfigError ends with what to do next. Code catches an error to go on only if there
// is another way (an older checkpoint, another try at the next save, a plan without a solver), and tells the user if
// that changes the run.
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

// what() reads "KEY = VALUE: REASON\n  REMEDY". `key` names an option ("zero.stage"), a parameter or a file.
class ConfigError : public Error {
 public:
  ConfigError(std::string_view key, std::string_view value, std::string_view reason, std::string_view remedy);
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

// what() names the rank at fault when it is known (`rank` is -1 when it is not).
class CommError : public Error {
 public:
  CommError(int rank, std::string_view operation, std::string_view reason);
  int rank() const { return rank_; }

 private:
  int rank_;
};

// `error_number` is an errno value, or 0 when the failure is not the system's (a damaged file). `unit`: the unit whose
// states were read or written; -1: none.
class IoError : public Error {
 public:
  IoError(std::string_view path, std::string_view operation, int error_number, std::string_view detail = "",
          int unit = -1);
  // The same error with `context` before its text: "rank 1: unit h.0: PATH: ...".
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
