// The lock is in a private struct of the interpreter, so this file needs the interpreter's internal headers.
#define Py_BUILD_CORE 1
#include "python/extension/fork_lock.h"

#include <Python.h>

#if PY_VERSION_HEX < 0x030C0000

#undef HAVE_STD_ATOMIC  // that branch of the internal headers is C only; the other one has the same layout
#include <internal/pycore_runtime.h>
#include <pthread.h>

#include "zero/base/error/error.h"

namespace zero::python {
namespace {

// Null before the interpreter has begun and after it has ended.
PyThread_type_lock lock_of_threads() {
  return _PyRuntime.interpreters.mutex;
}

// The lock that take_lock() has taken. Only the thread that forks reads and writes it, because it holds that lock.
PyThread_type_lock taken = nullptr;

void take_lock() {
  PyThread_type_lock lock = lock_of_threads();
  if (lock == nullptr) return;
  PyThread_acquire_lock(lock, WAIT_LOCK);
  taken = lock;
}

// Runs in the parent, and in the child before Python's own code there.
void release_lock() {
  if (taken == nullptr) return;
  PyThread_type_lock lock = taken;
  taken = nullptr;
  PyThread_release_lock(lock);
}

}  // namespace

void guard_forks() {
  static const int registered = ::pthread_atfork(&take_lock, &release_lock, &release_lock);
  if (registered != 0) throw IoError("pthread_atfork", "register", registered);
}

}  // namespace zero::python

#else

namespace zero::python {
void guard_forks() {}
}  // namespace zero::python

#endif
