// parse_weight_index(): reads the index of a model in several safetensors files: which tensor is in which file.
//
//   const WeightMap files = parse_weight_index(text, "model.safetensors.index.json");
//   files.at("wte.weight")                   // "model-00001-of-00002.safetensors"
//
// The index is one JSON object of
//   "weight_map": {TENSOR: FILE, ...}        at least one entry
//   "metadata": {...}                        optional; its contents are ignored
// No key occurs twice, and there is no other key. Each FILE is a possible file name in the index's own folder (without
// '/' or a zero byte, neither "." nor ".."). There are at most 1,000 files. Throws IoError with `path` and
// error_number() 0 for anything else. Local.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace zero {

using WeightMap = std::map<std::string, std::string>;  // from a tensor to its file

inline constexpr std::size_t kMostWeightFiles = 1000;

WeightMap parse_weight_index(std::string_view text, std::string_view path);

}  // namespace zero
