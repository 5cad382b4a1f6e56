// Manifest: the tensors, slices and checksums of a checkpoint. The grammar is docs/checkpoint_format.md.
//
//   Manifest manifest = parse_manifest(text, "step-500/manifest.json");
//   manifest.tensors[0].name == "transformer.wte.weight"
//   for (const SavedSlice& slice : manifest.files[1].slices) ...     // what rank 1 wrote
//
// It speaks of tensors under the user's names, cut into slices of their flattened elements; of ranks only as files.
// Invariants of a parsed one: names differ; the slices of each state of each tensor cover it once; everything lies in
// its file; sums are as many as blocks. Values; Local.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/dtype.h"
#include "zero/checkpoint/block_sums.h"
#include "zero/checkpoint/element_type.h"
#include "zero/engine/loss_scale.h"

namespace zero {

// Names of states of rows and of columns, as extras, are this, the state's name, "/" and the parameter's name
// (zero/checkpoint/factor_extras.h).
inline constexpr std::string_view kFactorPrefix = "factor/";

struct SavedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;  // that its parameter is saved in; moments are fp32
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

// A whole tensor that is one rank's own: a buffer, the state of a random generator, the losses so far.
struct SavedExtra {
  std::string name;
  ElementType dtype = ElementType::kU8;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
  std::int64_t size_bytes = 0;
  bool operator==(const SavedExtra&) const = default;
};

// What one rank wrote.
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
  std::int64_t skipped = 0;         // steps without one, for a gradient was not finite
  std::int64_t skipped_in_a_row = 0;
  std::int64_t delayed = 0;                // updates that came a step late
  LossScale::State loss_scale;             // without a value: there was no dynamic one
  std::map<std::string, std::string> run;  // what the run says of itself: "step", "samples" ...
  std::string config;                      // TOML; empty: none. Its SHA-256 stands beside it in the file
  std::vector<SavedTensor> tensors;
  std::vector<SavedFile> files;  // by rank

  std::int64_t size_bytes() const;    // of the files
  std::string config_sha256() const;  // 64 digits: two checkpoints of one configuration have the same
  bool operator==(const Manifest&) const = default;
};

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::int64_t kMostManifestBytes = std::int64_t{256} << 20;  // a larger one is not read

// The text of a manifest.json; it begins with a SHA-256 of what follows.
std::string to_text(const Manifest& manifest);
// Throws IoError (error_number() 0) that says what is wrong with it.
Manifest parse_manifest(std::string_view text, std::string_view path);

// One rank's entry alone, for sending.
std::string to_text(const SavedFile& file);
SavedFile parse_saved_file(std::string_view text, std::string_view path);

}  // namespace zero
