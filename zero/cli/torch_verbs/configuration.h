// The configuration, next to the engine's options in one file.
//
// zero/config/config.h and zero/engine/options.h both define zero::DeviceMemory. Until one of them goes, the
// configuration's is known under another name here; every file of this folder includes the configuration through this
// header, and first.
#pragma once

#define DeviceMemory ConfiguredDeviceMemory
#include "zero/config/config.h"
#undef DeviceMemory

#include "zero/cli/torch_entry.h"
#include "zero/config/load.h"
#include "zero/config/resolved.h"
