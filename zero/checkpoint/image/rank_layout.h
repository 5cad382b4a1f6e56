// RankLayout: the layout of one rank's file of a checkpoint, byte for byte: a safetensors file of slices.
//
//   const RankLayout layout = lay_out_rank(specs, units, SavedStates(names, {}), mesh, rank, extras);
//   layout.header;         // the file's first bytes
//   layout.slices[0]       // {tensor, state, begin, numel, offset}
//
// Each rank writes its shard of every state of every unit. The bytes do not depend on the stage, or on the tiers of
// states. If there are copies of the model, each writes a part of the shard (saved_part()). It writes the whole shard
// of a state that belongs to its copy only. The file has fp32 slices, unit by unit, state by state; then bf16 and fp16
// slices (of frozen parameters); then extras. Tensors are flattened and called STATE/NAME. A file may have several
// slices of a scattered unit: these are called STATE/NAME@ELEMENT, by their first element. Extras have their own names.
// Values; Local.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/image/saved_states.h"
#include "zero/plan/units/mesh.h"
#include "zero/plan/units/unit.h"

namespace zero {

// The begin of the name of a module's buffer, as an Extra.
inline constexpr std::string_view kBufferPrefix = "buffer/";

// One state of one unit, in the order of the file.
struct SavedRange {
  int unit = 0;
  int state = 0;  // number in the engine
  Shard part;     // range within the unit's flat range that this rank writes
};

struct RankLayout {
  std::string header;
  std::vector<SavedRange> ranges;  // their slices follow each other in `slices`
  std::vector<SavedSlice> slices;
  std::vector<SavedExtra> extras;
  std::int64_t size_bytes = 0;
};

// Tells which of the engine's states a unit keeps. A frozen unit keeps only its parameters.
using KeepsState = std::function<bool(int unit, int state)>;
inline bool keeps_every_state(int /*unit*/, int /*state*/) {
  return true;
}

// Throws ConfigError for a name that cannot be stored.
RankLayout lay_out_rank(const std::vector<ParamSpec>& specs, const std::vector<Unit>& units, const SavedStates& states,
                        const Mesh& mesh, int rank, const std::vector<Extra>& extras,
                        const KeepsState& keeps = keeps_every_state);

// Returns the type in which a unit's parameters are saved: full precision.
constexpr DType saved_parameter_dtype(const Unit& unit) {
  return unit.trainable ? DType::kFloat32 : unit.dtype;
}

std::string rank_file_name(int rank);  // "rank-00003.safetensors"

}  // namespace zero
