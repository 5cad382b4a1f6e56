// Error, ConfigError, CommError, IoError: the errors that zero.cpp throws. The kind says who can correct the cause.
//
//   try { engine.step(); } catch (const zero::CommError& error) { ... }   // a rank was lost
#pragma once

#include "zero/base/error/error.h"
