#include "zero/checkpoint/image/rank_layout.h"

#include <fmt/format.h>

#include "zero/checkpoint/safetensors/safetensors_header.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

// Assigns positions to tensors, one after the other, before the header's size is known.
class Places {
 public:
  std::int64_t add(std::string name, ElementType dtype, std::vector<std::int64_t> shape, std::int64_t bytes) {
    entries_.push_back({std::move(name), dtype, std::move(shape), end_, end_ + bytes});
    return std::exchange(end_, end_ + bytes);
  }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  std::int64_t end() const { return end_; }

 private:
  std::vector<SafetensorsEntry> entries_;
  std::int64_t end_ = 0;
};

}  // namespace

RankLayout lay_out_rank(const std::vector<ParamSpec>& specs, const std::vector<Unit>& units, const SavedStates& states,
                        const Mesh& mesh, int rank, const std::vector<Extra>& extras, const KeepsState& keeps) {
  RankLayout layout;
  Places places;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const Unit& unit : units) {
      if (saved_parameter_dtype(unit) != dtype) continue;
      for (int state = 0; state < (unit.trainable ? states.num_of_engine() : 1); ++state) {
        if (!keeps(unit.index, state)) continue;
        const SavedState saved = states.of_unit(unit, state);
        const Shard own =
            saved.of_copy ? shard_of(unit, mesh.shard_of(rank), mesh.shard) : saved_part(unit, mesh, rank);
        layout.ranges.push_back({unit.index, state, own});
        for (const Slice& slice : owned_in(unit, own)) {
          const SlicePart part = overlap(slice, own);
          if (part.numel == 0) continue;
          const std::string name = fmt::format("{}/{}", states.names()[static_cast<std::size_t>(saved.number)],
                                               specs[static_cast<std::size_t>(slice.param)].name);
          const std::int64_t place =
              places.add(unit.scattered ? fmt::format("{}@{}", name, part.begin) : name, element_type_of(dtype),
                         {part.numel}, part.numel * static_cast<std::int64_t>(size_of(dtype)));
          layout.slices.push_back({slice.param, saved.number, part.begin, part.numel, place});
        }
      }
    }
  }
  for (const Extra& extra : extras) {
    const auto bytes = static_cast<std::int64_t>(extra.bytes.size());
    layout.extras.push_back(
        {extra.name, extra.dtype, extra.shape, places.add(extra.name, extra.dtype, extra.shape, bytes), bytes});
  }
  const std::string file = rank_file_name(rank);
  require_storable(places.entries(), file);
  layout.header = render_safetensors_header(places.entries(), {{"format", "pt"}}, file);
  const auto begin = static_cast<std::int64_t>(layout.header.size());
  for (SavedSlice& slice : layout.slices) slice.offset += begin;
  for (SavedExtra& extra : layout.extras) extra.offset += begin;
  layout.size_bytes = begin + places.end();
  return layout;
}

std::string rank_file_name(int rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

}  // namespace zero
