// Any bytes as a safetensors file. They give a ConfigError, or all tensors are inside the file, and the header is equal
// after it is written and read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zero;
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const SafetensorsHeader header = parse_safetensors_header(file, std::ssize(file), "fuzz");
    std::int64_t covered = 0;
    for (const SafetensorsEntry& entry : header.entries) {
      if (entry.begin != covered || entry.end < entry.begin) std::abort();
      covered = entry.end;
    }
    if (header.buffer_begin + covered != static_cast<std::int64_t>(size)) std::abort();

    std::string again = render_safetensors_header(header.entries, header.metadata, "fuzz");
    again.append(static_cast<std::size_t>(covered), '\0');
    const SafetensorsHeader same = parse_safetensors_header(std::as_bytes(std::span(again)), std::ssize(again), "fuzz");
    if (same.entries != header.entries || same.metadata != header.metadata) std::abort();
  } catch (const ConfigError&) {
  }
  return 0;
}
