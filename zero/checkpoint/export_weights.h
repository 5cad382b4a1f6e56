// export_weights(): the parameters of a checkpoint as safetensors that other programs load.
//
//   export_weights(reader, "model.safetensors", {.dtype = DType::kBFloat16});
//
// Names as in the model. What is larger than `shard_bytes` becomes NAME-00001-of-00003.safetensors and so on, and
// NAME.safetensors.index.json, as Hugging Face has it. Holds 40 MiB at most. Local. Throws IoError.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "zero/checkpoint/checkpoint_reader.h"

namespace zero {

struct ExportOptions {
  std::optional<DType> dtype;  // of the trained parameters; absent: fp32
  std::int64_t shard_bytes = std::int64_t{5} * 1000 * 1000 * 1000;
};

// Returns the files written, the index last.
std::vector<std::filesystem::path> export_weights(CheckpointReader& reader, const std::filesystem::path& path,
                                                  const ExportOptions& options = {});

}  // namespace zero
