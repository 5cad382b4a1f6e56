// Any bytes as the index of a model in several files. They give an IoError that fits one screen, or tensors in a
// limited number of files of the index's own folder. The index is equal after it is written and read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/weight_index.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zero;
  WeightMap files;
  try {
    files = parse_weight_index(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const IoError& error) {
    const std::string_view message = error.what();
    require(message.starts_with("fuzz: ") && message.size() < 2000);
    return 0;
  }
  std::set<std::string_view> names;
  for (const auto& [tensor, name] : files) names.insert(name);
  require(!names.empty() && names.size() <= kMostWeightFiles);
  for (const std::string_view name : names) {
    require(!name.empty() && name != "." && name != "..");
    require(std::ranges::none_of(name, [](char letter) { return letter == '/' || letter == '\0'; }));
  }
  require(parse_weight_index(nlohmann::json{{"weight_map", files}}.dump(), "fuzz") == files);
  return 0;
}
