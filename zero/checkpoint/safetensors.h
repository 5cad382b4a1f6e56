// safetensors: the strict reader and the writer of safetensors files, in one include.
#pragma once

#include "zero/checkpoint/safetensors/safetensors_file.h"
#include "zero/checkpoint/safetensors/safetensors_writer.h"
#include "zero/checkpoint/safetensors_set.h"
