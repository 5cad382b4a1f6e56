#include "app/cli/verify/first_element.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "zero/checkpoint/image/state_sums.h"

namespace zero::cli {
namespace {

constexpr std::int64_t kTile = std::int64_t{1} << 18;  // elements

int state_number(const Manifest& manifest, std::string_view state) {
  const auto found = std::ranges::find(manifest.states, state);
  return found == manifest.states.end() ? -1 : static_cast<int>(found - manifest.states.begin());
}

// Calls visit(begin, values) for the tiles of one state of one tensor.
template <typename Visit>
void read_tiles(CheckpointReader& reader, int tensor, int state, Visit visit) {
  const std::int64_t numel = reader.manifest().tensors[static_cast<std::size_t>(tensor)].numel();
  std::vector<float> values(static_cast<std::size_t>(std::min(numel, kTile)));
  for (std::int64_t begin = 0; begin < numel; begin += kTile) {
    const std::span<float> tile = std::span(values).first(static_cast<std::size_t>(std::min(kTile, numel - begin)));
    reader.read(tensor, state, begin, tile);
    visit(begin, std::span<const float>(tile));
  }
}

// Returns false if no element of this state differs.
bool differs(CheckpointReader& recorded, CheckpointReader& executed, int tensor, int state, int other, int other_state,
             DifferentElement& found) {
  bool different = false;
  std::vector<float> theirs;
  read_tiles(recorded, tensor, state, [&](std::int64_t begin, std::span<const float> values) {
    if (different) return;
    theirs.resize(values.size());
    executed.read(other, other_state, begin, theirs);
    if (std::memcmp(values.data(), theirs.data(), values.size_bytes()) == 0) return;
    std::size_t i = 0;
    while (std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(theirs[i])) ++i;
    found.index = begin + static_cast<std::int64_t>(i);
    found.recorded = values[i];
    found.found = theirs[i];
    different = true;
  });
  return different;
}

}  // namespace

std::optional<DifferentElement> find_first_element(CheckpointReader& recorded, CheckpointReader& executed,
                                                   std::string_view state) {
  const int mine = state_number(recorded.manifest(), state), theirs = state_number(executed.manifest(), state);
  if (mine < 0 || theirs < 0) return std::nullopt;
  std::optional<DifferentElement> first;
  for (std::size_t tensor = 0; tensor < recorded.manifest().tensors.size(); ++tensor) {
    const SavedTensor& saved = recorded.manifest().tensors[tensor];
    const int other = executed.find(saved.name), number = static_cast<int>(tensor);
    if (other < 0 || !recorded.has(number, mine) || !executed.has(other, theirs)) continue;
    if (executed.manifest().tensors[static_cast<std::size_t>(other)].shape != saved.shape) continue;
    DifferentElement here{.tensor = saved.name};
    if (!differs(recorded, executed, number, mine, other, theirs, here)) continue;
    if (!first) first = here;
    ++first->num_tensors;
  }
  return first;
}

StateSums sums_of(CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  StateSums sums;
  for (std::size_t tensor = 0; tensor < manifest.tensors.size(); ++tensor) {
    for (std::size_t state = 0; state < manifest.states.size(); ++state) {
      const int t = static_cast<int>(tensor), s = static_cast<int>(state);
      if (!reader.has(t, s)) continue;
      const bool is_half = element_bytes(manifest, t, s) == 2;
      std::vector<std::uint16_t> halves;
      read_tiles(reader, t, s, [&](std::int64_t begin, std::span<const float> values) {
        std::span<const std::byte> bytes = std::as_bytes(values);
        if (is_half) {  // the reader widens frozen parameters
          halves.resize(values.size());
          convert_elements(bytes.data(), DType::kFloat32, reinterpret_cast<std::byte*>(halves.data()),
                           manifest.tensors[tensor].dtype, std::ssize(values));
          bytes = std::as_bytes(std::span(halves));
        }
        sums.add(manifest.states[state], manifest.tensors[tensor].name, begin, bytes, is_half ? 2 : 4);
      });
    }
  }
  return sums;
}

}  // namespace zero::cli
