// HostLanguage: the functions that a program in another language gives to this library. Each of them may be null.
//
//   set_host_language({.check_wait = &raise_keyboard_interrupt, .rethrow = &throw_typed_error});
//
// The Python package sets them. A C++ program needs none of them.
#pragma once

#include "zero/base/error/error.h"

namespace zero {

struct HostLanguage {
  // Called on a thread that waits for other ranks, at most every 50 ms. An exception that it throws ends the wait.
  void (*check_wait)() = nullptr;
  // Called with an Error that is about to leave an operator or a backward pass. Throws the exception of the other
  // language. Does not return.
  void (*rethrow)(const Error& error) = nullptr;
  // Called around a wait for other ranks, on the thread that waits. unlock() gives up the lock of the other language,
  // if this thread holds it, and returns what lock() needs to take it back. Null: the thread does not hold it.
  void* (*unlock)() = nullptr;
  void (*lock)(void* state) = nullptr;
};

// Local. Call it once, before the first world.
void set_host_language(const HostLanguage& host);
const HostLanguage& host_language();

// Local. Calls check_wait(), if it is set.
void check_wait();

// Gives up the lock of the other language while it lives, so other threads of that language run. Local.
class [[nodiscard]] HostUnlocked {
 public:
  HostUnlocked();
  ~HostUnlocked();
  HostUnlocked(const HostUnlocked&) = delete;
  HostUnlocked& operator=(const HostUnlocked&) = delete;

 private:
  void* state_;
};

// Local. Returns use(). If that throws an Error, rethrow() throws its counterpart instead, if it is set.
template <typename Use>
auto with_host_errors(Use use) {
  if (host_language().rethrow == nullptr) return use();
  try {
    return use();
  } catch (const Error& error) {
    host_language().rethrow(error);
    throw;
  }
}

}  // namespace zero
