// Any bytes as the body of a manifest with a matching hash. They give an IoError, or a manifest that is equal after it
// is written and read. Any bytes as a whole manifest are refused in the same way.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"
#include "zero/checkpoint/image/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zero;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const std::string text =
      fmt::format("{{\"sha256\":\"{}\",\"manifest\":{}}}\n", sha256_hex(std::as_bytes(std::span(body))), body);
  for (const std::string_view file : {std::string_view(text), body}) {
    try {
      const Manifest manifest = parse_manifest(file, "fuzz");
      if (parse_manifest(to_text(manifest), "fuzz") != manifest) std::abort();
    } catch (const IoError&) {
    }
  }
  return 0;
}
