// StateSums: a sum over all elements of each state of a model, equal for every cut of the states into files.
//
//   StateSums sums;
//   sums.add("exp_avg", "wte.weight", /*begin=*/4096, bytes, /*element_bytes=*/4);    // each slice once, in any order
//   sums.merge(of_another_rank);
//   to_text(sums)                          // "exp_avg 8c1f03b29d77e650, parameter 02d9a4c5e1b86f37"
//
// The sum of a state is that of a 64-bit hash of each element, modulo 2^64. The hash mixes the names of the state and
// of the tensor, the element's index and its bits. So a sum changes with every changed bit, and does not depend on the
// number of ranks, the stage or the placement. It finds damage and edits; it is no cryptographic hash. Values; Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "zero/checkpoint/image/manifest.h"

namespace zero {

class StateSums {
 public:
  // Adds elements of `element_bytes` (2 or 4), of which the first has the index `begin` in the flattened tensor.
  void add(std::string_view state, std::string_view tensor, std::int64_t begin, std::span<const std::byte> elements,
           std::int64_t element_bytes);
  void merge(const StateSums& other);

  // By the state's name.
  const std::map<std::string, std::uint64_t, std::less<>>& of_states() const { return sums_; }
  bool operator==(const StateSums&) const = default;

  // Returns nullopt for another text than to_text() writes.
  static std::optional<StateSums> of_text(std::string_view text);

 private:
  std::map<std::string, std::uint64_t, std::less<>> sums_;
};

// States in the order of their names; "" if there are none.
std::string to_text(const StateSums& sums);

// SumsOfFile: the sums of the slices in one rank's file, whose bytes come in order and in pieces of any size.
class SumsOfFile {
 public:
  // `manifest` has states and tensors; it and `slices` outlive the object.
  SumsOfFile(const Manifest& manifest, std::span<const SavedSlice> slices);
  void add(std::span<const std::byte> bytes);
  const StateSums& sums() const { return sums_; }

 private:
  std::int64_t end_of(const SavedSlice& slice) const;

  const Manifest& manifest_;
  std::vector<const SavedSlice*> slices_;  // by offset
  std::size_t next_ = 0;                   // the slice of the next byte, or the one after it
  std::int64_t offset_ = 0;                // bytes so far
  std::vector<std::byte> part_;            // the begin of an element that the last piece has cut
  StateSums sums_;
};

// The entry of Manifest::run with the sums.
inline constexpr const char* kStateSumsKey = "state_sums";

// Returns the bytes of an element of a saved state.
std::int64_t element_bytes(const Manifest& manifest, int tensor, int state);

}  // namespace zero
