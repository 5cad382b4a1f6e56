// `zero doctor`: says what this machine has and lacks for zero.cpp, and which rank made a run wait.
#pragma once

#include "zero/command/verb.h"

namespace zero::cli {

int run_doctor(Arguments arguments);

}  // namespace zero::cli
