// Unit: parameters that are gathered and reduced together, laid out as one contiguous flat range.
//
//   std::vector<Unit> units = make_units(specs, {});   // one a repeated block, embeddings alone, the rest in "root"
//   units[2].name == "transformer.h.0"
//
// Invariants: every parameter lies in exactly one unit, in one slice; a unit holds one dtype, and either trainable or
// frozen parameters; slices are in registration order and start at multiples of Unit::align_bytes and of the unit's grain; empty
// parameters have empty slices; matrices that are updated as wholes, or of which the optimizer keeps states of rows and
// columns (it factors them), are in units without other parameters. Units are ordered by their first parameter, so
// gradients arrive in about the reversed order of units.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zero/plan/param_spec.h"

namespace zero {

// The place of a parameter, or of a part of one, in its unit's flat range, in elements.
struct Slice {
  int param = 0;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  std::int64_t rows = 0;   // of a matrix of Unit::matrices(); 0: its elements are updated by themselves
  std::int64_t begin = 0;  // of a part: its first element's place in the parameter
  std::int64_t shift = 0;  // offset + shift: its place where the parameters are whole, one after the other
  std::int64_t columns() const { return rows == 0 ? 0 : numel / rows; }
  bool operator==(const Slice&) const = default;
};

// Parameters begin at multiples of so many bytes where operators run on the CPU: a line of its cache.
inline constexpr std::int64_t kHostAlignBytes = 64;
// Where they run on a GPU: docs/decisions/0058.
inline constexpr std::int64_t kGpuAlignBytes = 256;

struct Unit {
  int index = 0;
  std::string name;
  DType dtype = DType::kFloat32;
  bool trainable = true;
  // One block of many (a numbered child of a container: "h.3"), or the part of one that has this dtype: a backward pass
  // brings its gradients together, and one block after the other.
  bool repeated = false;
  int fills_with = 0;      // the first unit of the same block: one that holds several dtypes is several units
  std::int64_t grain = 1;  // of the optimizer's states (OptimizerSpec): a power of two
  std::int64_t align_bytes =
      kHostAlignBytes;  // of parameters and shards, as the device's operators want it: a power of two
  std::vector<Slice> slices;
  std::int64_t numel = 0;  // of the flat range: the slices and the gaps between them
  // Of a unit that is cut by other rules than into equal ranges (zero/plan/cut.h): its slices as the shards have them, in
  // the order of offsets. Empty: as `slices` lie. Scattered: a parameter may lie in several, and `slices` say where
  // parameters lie once a gather has put them together.
  std::vector<Slice> owned;
  bool scattered = false;
  // Of a unit that is cut by weights (zero/plan/weighted_cut.h): where each owner's shard begins, and where the last one
  // ends. Empty: shards are equal. `own`: the owner for whom shard_numel() and all that is computed from it speaks.
  std::vector<std::int64_t> bounds;
  int own = 0;
  // Its matrices have states of rows and columns in place of one of each element.
  bool factored = false;
  // Of matrices that are updated as wholes: floats that a rank works with to complete the one that takes most
  // (MatrixRule::workspace_numel()).
  std::int64_t workspace_numel = 0;
  // All its parameters are matrices that are updated as wholes or factored, or none is.
  bool matrices() const { return !slices.empty() && slices.front().rows > 0; }
  bool whole_matrices() const { return matrices() && !factored; }
};

// What an optimizer treats as matrices, with their first dimension as rows, and how.
struct MatrixChoice {
  std::function<bool(const ParamSpec& spec)> is_matrix;  // empty: none is
  bool factored = false;                                 // Unit::factored; else they are updated as wholes
  bool operator()(const ParamSpec& spec) const { return is_matrix && is_matrix(spec); }
};

// Slices and shards start at multiples of this many elements: align_bytes, or the grain where that is more. So no term of a
// norm (kSumBlock in zero/base/exact_sum.h) has elements of two parameters, or of two ranks.
inline std::int64_t alignment_numel(const Unit& unit) {
  return std::max(unit.align_bytes / static_cast<std::int64_t>(size_of(unit.dtype)), unit.grain);
}

// `prefixes`: module names that each become one unit ("encoder", "transformer.h.3"); the longest match wins. Empty: a
// unit for each element of the module's outermost repeated containers ("h.0", "h.1", ...: a numbered child). Throws
// ConfigError under "units" for a prefix that matches no parameter, or only the second name of a tied one. `grain`: of units that are trained.
// Trained parameters alone are asked about. `align_bytes`: of all units.
std::vector<Unit> make_units(const std::vector<ParamSpec>& specs, const std::vector<std::string>& prefixes,
                             std::int64_t grain = 1, const MatrixChoice& is_matrix = {},
                             std::int64_t align_bytes = kHostAlignBytes);

// For each parameter, the unit and the position of its slice there.
struct SliceAddress {
  int unit = 0;
  int slice = 0;
};
std::vector<SliceAddress> addresses_of(const std::vector<Unit>& units, std::size_t num_params);

}  // namespace zero
