// export_weights(): writes the parameters and buffers of a checkpoint as safetensors that other programs load.
//
//   export_weights(reader, "model.safetensors", {.dtype = DType::kBFloat16});
//
// Names are those of the model. Each rank has its own buffers (a BatchNorm's running statistics): rank 0's are
// exported, in their own type. If the weights have more than `shard_bytes`, the files are
// NAME-00001-of-00003.safetensors and so on, with NAME.safetensors.index.json, as Hugging Face names them. Creates the
// folder. At the end it removes the other files of an earlier export with this name: one file, or an index and its
// shards. Holds at most 40 MiB and the buffers. Local. Throws IoError.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "zero/checkpoint/read/checkpoint_reader.h"

namespace zero {

struct ExportOptions {
  std::optional<DType> dtype;  // of the trained parameters; absent: fp32
  std::int64_t shard_bytes = std::int64_t{5} * 1000 * 1000 * 1000;
};

struct ExportedWeights {
  std::vector<std::filesystem::path> files;  // the index last
  std::int64_t num_parameters = 0;
  std::int64_t num_buffers = 0;
  std::vector<std::string> left_out;  // a phrase for each thing that only the checkpoint has
};

ExportedWeights export_weights(CheckpointReader& reader, const std::filesystem::path& path,
                               const ExportOptions& options = {});

}  // namespace zero
