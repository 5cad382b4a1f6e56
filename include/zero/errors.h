// Error, ConfigError, CommError, IoError: the errors that zero.cpp throws. Each kind says who can put it right.
//
//   try { engine.step(); } catch (const zero::CommError& error) { ... }   // a rank was lost
#pragma once

#include "zero/base/error/error.h"
