// Safetensors: files of weights, read strictly and written piece by piece.
//
//   const auto weights = zero::SafetensorsSet::open("export", "path");   // a file, an index, or a folder of one
//   weights.find("wte.weight")                                           // null if there is none
#pragma once

#include "zero/checkpoint/safetensors.h"
