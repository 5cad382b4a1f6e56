#include "zero/base/process/thread_gate.h"

#include <string>

#include "zero/base/error/error.h"

namespace zero {

void ThreadGate::refuse(int rank) {
  throw ConfigError("threads", "2", "two threads of rank " + std::to_string(rank) + " use its engines at the same time",
                    "let one thread after the other call models and engines, or hold a lock of your own around both");
}

}  // namespace zero
