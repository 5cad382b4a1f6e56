// The index of a model that lies in several safetensors files: which tensor is in which.
//
//   const WeightMap files = parse_weight_index(text, "model.safetensors.index.json");
//   files.at("wte.weight")                   // "model-00001-of-00002.safetensors"
//
// One JSON object of
//   "weight_map": {TENSOR: FILE, ...}        at least one
//   "metadata": {...}                        or none; what it holds is not looked at
// No key occurs twice, no other is there; each FILE can be the name of a file in the index's own folder and of no other
// (nothing with '/' or a zero byte, neither "." nor ".."), and there are at most 1,000 of them. IoError with `path` and
// error_number() 0 for anything else. Local.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace zero {

using WeightMap = std::map<std::string, std::string>;  // by tensor: its file

inline constexpr std::size_t kMostWeightFiles = 1000;

WeightMap parse_weight_index(std::string_view text, std::string_view path);

}  // namespace zero
