// FatalIo: a read or write that failed leaves no state to go on from, so its IoError is thrown by every later call, too.
//
//   FatalIo io([](const IoError& error) { return error.within("rank 3"); });    // who met it; nothing: as it is
//   io.run([&] { disk.write(bytes); });          // throws the IoError, and from then on nothing else
//   io.run_noexcept([&] { disk.write(more); });  // where nothing may be thrown: the next run() does
//
// Of several IoErrors the first counts. Any other error that run_noexcept() meets is thrown once. Local; one thread at
// a time.
#pragma once

#include <exception>
#include <functional>
#include <utility>

#include "zero/base/error.h"

namespace zero {

class FatalIo {
 public:
  using Tell = std::function<IoError(const IoError&)>;
  explicit FatalIo(Tell tell = {}) : tell_(std::move(tell)) {}

  bool failed() const { return failed_ != nullptr; }
  void rethrow() {
    if (failed_ != nullptr) [[unlikely]]
      std::rethrow_exception(failed_);
    if (postponed_ != nullptr) [[unlikely]]
      std::rethrow_exception(std::exchange(postponed_, nullptr));
  }

  template <typename Body>
  auto run(Body body) {
    rethrow();
    try {
      return body();
    } catch (const IoError& error) {
      keep(error);
      std::rethrow_exception(failed_);
    }
  }
  // Does nothing after an IoError.
  template <typename Body>
  void run_noexcept(Body body) noexcept {
    if (failed()) return;
    try {
      body();
    } catch (const IoError& error) {
      keep(error);
    } catch (...) {
      if (postponed_ == nullptr) postponed_ = std::current_exception();
    }
  }

 private:
  void keep(const IoError& error) {
    if (failed_ == nullptr) failed_ = std::make_exception_ptr(tell_ ? tell_(error) : error);
  }

  Tell tell_;
  std::exception_ptr failed_;     // an IoError
  std::exception_ptr postponed_;  // anything else
};

}  // namespace zero
