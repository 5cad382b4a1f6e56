// Any bytes as an IDX file, plain or compressed: a ConfigError, or as many values as its sizes say.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "zero/base/error/error.h"

#include "app/data/images/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zero;
  for (const int num_dimensions : {1, 3}) {
    try {
      const IdxArray array = parse_idx(std::as_bytes(std::span(data, size)), num_dimensions, "data.path", "fuzz");
      std::int64_t numel = 1;
      for (const std::int64_t length : array.shape) numel *= length;
      if (static_cast<std::int64_t>(array.values.size()) != numel) std::abort();
    } catch (const ConfigError&) {
    }
  }
  return 0;
}
