// Unit: parameters that are gathered and reduced together, laid out as one contiguous flat range.
//
//   std::vector<Unit> units = make_units(specs, {});   // one per repeated block, one per embedding, the rest in "root"
//   units[2].name == "transformer.h.0"
//
// Invariants: every parameter is in exactly one unit, in one slice. A unit has one dtype, and either trainable or
// frozen parameters. Slices are in registration order and start at multiples of Unit::align_bytes and of the unit's
// grain. Empty parameters have empty slices. Matrices that are updated as wholes or factored (with states of rows and
// columns) share no unit with other parameters. Units are ordered by their first parameter, so gradients arrive in
// roughly reversed order of units.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zero/plan/units/param_spec.h"

namespace zero {

// The position of a parameter, or of a part of one, in its unit's flat range, in elements.
struct Slice {
  int param = 0;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  std::int64_t rows = 0;   // rows of a matrix of Unit::matrices(); 0: updated element by element
  std::int64_t begin = 0;  // index of a part's first element in the parameter
  std::int64_t shift = 0;  // offset + shift: its position in the order of parameters
  std::int64_t columns() const { return rows == 0 ? 0 : numel / rows; }
  bool operator==(const Slice&) const = default;
};

// Alignment of parameters if operators run on the CPU: a cache line.
inline constexpr std::int64_t kHostAlignBytes = 64;
// Alignment if operators run on a GPU: docs/decisions/0058.
inline constexpr std::int64_t kGpuAlignBytes = 256;

struct Unit {
  int index = 0;
  std::string name;
  DType dtype = DType::kFloat32;
  bool trainable = true;
  // The unit is one block of many (a numbered child of a container: "h.3"), or the part of a block with this dtype. A
  // backward pass completes a block's gradients together, one block after the other.
  bool repeated = false;
  int first_unit_of_block = 0;  // the first unit of the same block: a block with several dtypes is several units
  std::int64_t grain = 1;       // grain of the optimizer's states (OptimizerSpec): a power of two
  std::int64_t align_bytes =
      kHostAlignBytes;  // alignment of parameters and shards for the device's operators: a power of two
  std::vector<Slice> slices;
  std::int64_t numel = 0;  // elements of the flat range: slices, and the gaps between them
  // Slices as the shards store them, by offset, if the unit is not cut into equal ranges (zero/plan/units/cut.h).
  // Empty: the same as `slices`. Scattered: a parameter may have several owned slices, and `slices` is the order of
  // parameters after a gather.
  std::vector<Slice> owned;
  bool scattered = false;
  // Begin of each owner's shard, and end of the last one, if the unit is cut by weights
  // (zero/plan/units/weighted_cut.h). Empty: shards are equal. `own`: the owner whose shard shard_numel() and all
  // computations from it describe.
  std::vector<std::int64_t> bounds;
  int own = 0;
  // The optimizer keeps states of rows and columns, instead of one of each element, for its matrices.
  bool factored = false;
  // Workspace, in floats, for the completion of the largest matrix that is updated as a whole
  // (MatrixRule::workspace_numel()).
  std::int64_t workspace_numel = 0;
  // Returns whether its parameters are matrices that are updated as wholes or factored. Either all are, or none is.
  bool matrices() const { return !slices.empty() && slices.front().rows > 0; }
  bool whole_matrices() const { return matrices() && !factored; }
};

// Chooses the parameters that an optimizer treats as matrices (the first dimension counts as rows), and how.
struct MatrixChoice {
  std::function<bool(const ParamSpec& spec)> is_matrix;  // empty: no parameter
  bool factored = false;                                 // Unit::factored; otherwise they are updated as wholes
  bool operator()(const ParamSpec& spec) const { return is_matrix && is_matrix(spec); }
};

// Returns the number of elements at whose multiples slices and shards start: align_bytes, or the grain if that is
// larger. So no term of a norm (kSumBlock in zero/base/numbers/exact_sum.h) has elements of two parameters or of two
// ranks.
inline std::int64_t alignment_numel(const Unit& unit) {
  return std::max(unit.align_bytes / static_cast<std::int64_t>(size_of(unit.dtype)), unit.grain);
}

// Makes units. `prefixes`: module names that each become one unit ("encoder", "transformer.h.3"); the longest match
// wins. Empty: one unit for each element of the outermost repeated containers ("h.0", "h.1", ...: numbered children).
// Throws ConfigError under "units" for a prefix that matches no parameter, or only the second name of a tied parameter.
// `grain`: the grain of trainable units. `is_matrix` is only called with trainable parameters. `align_bytes`: the
// alignment of all units.
std::vector<Unit> make_units(const std::vector<ParamSpec>& specs, const std::vector<std::string>& prefixes,
                             std::int64_t grain = 1, const MatrixChoice& is_matrix = {},
                             std::int64_t align_bytes = kHostAlignBytes);

// The unit of a parameter, and the index of its slice there.
struct SliceAddress {
  int unit = 0;
  int slice = 0;
};
std::vector<SliceAddress> addresses_of(const std::vector<Unit>& units, std::size_t num_params);

}  // namespace zero
