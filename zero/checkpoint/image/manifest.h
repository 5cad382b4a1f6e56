// Manifest: the tensors, slices and checksums of a checkpoint. The grammar is docs/checkpoint_format.md.
//
//   Manifest manifest = parse_manifest(text, "step-500/manifest.json");
//   manifest.tensors[0].name == "transformer.wte.weight"
//   for (const SavedSlice& slice : manifest.files[1].slices) ...     // what rank 1 wrote
//
// It names tensors as the user does, and cuts them into slices of their flattened elements. Ranks appear only as files.
// Invariants after parsing: names differ. The slices of each state of each tensor cover it once. Slices and extras are
// inside their files. A file has as many sums as blocks. Values; Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/numbers/dtype.h"
#include "zero/checkpoint/safetensors/block_sums.h"
#include "zero/checkpoint/safetensors/element_type.h"
#include "zero/engine/options/loss_scale.h"

namespace zero {

// The begin of an extra's name that is a state of rows or columns. The state's name, "/" and the parameter's name
// follow (zero/checkpoint/image/factor_extras.h).
inline constexpr std::string_view kFactorPrefix = "factor/";

struct SavedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;  // type in which its parameter is saved; moments are fp32
  bool trainable = true;          // false: no moments
  std::int64_t updates = 0;
  std::vector<std::string> aliases;  // further names of the same tensor

  std::int64_t numel() const;
  bool operator==(const SavedTensor&) const = default;
};

// Elements [begin, begin + numel) of one state of one tensor.
struct SavedSlice {
  int tensor = 0;
  int state = 0;
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  std::int64_t offset = 0;  // bytes from the file's start
  bool operator==(const SavedSlice&) const = default;
};

// A whole tensor of one rank: a buffer, the state of a random generator, the losses so far.
struct SavedExtra {
  std::string name;
  ElementType dtype = ElementType::kU8;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
  std::int64_t size_bytes = 0;
  bool operator==(const SavedExtra&) const = default;
};

// The contents of the file that one rank wrote.
struct SavedFile {
  std::string name;
  BlockSums content;
  std::vector<SavedSlice> slices;
  std::vector<SavedExtra> extras;
  bool operator==(const SavedFile&) const = default;
};

struct Manifest {
  std::vector<std::string> states;  // by number: "parameter", "exp_avg", ...
  std::int64_t steps = 0;           // updates
  std::int64_t skipped = 0;         // steps without an update, because a gradient was not finite
  std::int64_t skipped_in_a_row = 0;
  std::int64_t delayed = 0;                // updates that were applied a step late
  LossScale::State loss_scale;             // without a value: no dynamic loss scale
  std::map<std::string, std::string> run;  // the run's own entries: "step", "samples" ...
  std::string config;                      // TOML; empty: none. The file also has its SHA-256
  std::vector<SavedTensor> tensors;
  std::vector<SavedFile> files;  // by rank

  std::int64_t size_bytes() const;    // sum of all files
  std::string config_sha256() const;  // 64 digits, equal for two checkpoints of one configuration
  bool operator==(const Manifest&) const = default;
};

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::int64_t kMostManifestBytes = std::int64_t{256} << 20;  // a larger one is not read

// Returns the text of a manifest.json. It begins with a SHA-256 of the rest.
std::string to_text(const Manifest& manifest);
// Throws IoError (error_number() 0) with the reason if the text is no valid manifest.
Manifest parse_manifest(std::string_view text, std::string_view path);

// One rank's entry by itself, for sending.
std::string to_text(const SavedFile& file);
SavedFile parse_saved_file(std::string_view text, std::string_view path);

// Extra: a whole tensor of one rank in a checkpoint, such as a buffer or a random generator's state. Values only.
struct Extra {
  std::string name;  // "rng/cpu", "buffer/bn.running_mean"
  ElementType dtype = ElementType::kU8;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

}  // namespace zero
