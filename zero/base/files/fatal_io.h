// FatalIo: throws the IoError of a failed read or write again in every later call, because no valid state is left.
//
//   FatalIo io([](const IoError& error) { return error.within("rank 3"); });    // adds context; empty: unchanged
//   io.run([&] { disk.write(bytes); });          // throws the IoError, and from then on nothing else
//   io.run_noexcept([&] { disk.write(more); });  // throws nothing: the next run() throws
//
// The first of several IoErrors counts. Any other error in run_noexcept() is thrown once. Local; one thread at a time.
#pragma once

#include <exception>
#include <functional>
#include <utility>

#include "zero/base/error/error.h"

namespace zero {

class FatalIo {
 public:
  using Describe = std::function<IoError(const IoError&)>;
  explicit FatalIo(Describe describe = {}) : describe_(std::move(describe)) {}

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
    if (failed_ == nullptr) failed_ = std::make_exception_ptr(describe_ ? describe_(error) : error);
  }

  Describe describe_;
  std::exception_ptr failed_;     // an IoError
  std::exception_ptr postponed_;  // any other error
};

}  // namespace zero
