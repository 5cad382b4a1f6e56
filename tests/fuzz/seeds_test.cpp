// Runs every fuzzer's function on its seeds, unchanged and slightly changed, without clang. `./test.sh` runs this with
// AddressSanitizer. `./test.sh full` lets libFuzzer continue from there.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"

#include "tests/fuzz/targets.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<std::filesystem::path> seeds_of(const FuzzTarget& target) {
  const std::filesystem::path folder = std::filesystem::path(built::kSourceFolder) / "tests/fuzz/seeds" / target.name;
  std::vector<std::filesystem::path> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) seeds.push_back(entry.path());
  std::ranges::sort(seeds);
  return seeds;
}

// Uses a separate copy, so a sanitizer notices a read beyond its end.
void try_on(const FuzzTarget& target, std::span<const std::uint8_t> input) {
  const Bytes copy(input.begin(), input.end());
  target.run(copy.data(), copy.size());
}

// About `count` positions of a seed, with the first and the last.
std::vector<std::size_t> places(std::size_t size, std::size_t count) {
  const std::size_t stride = std::max<std::size_t>(1, size / count);
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < size; at += stride) found.push_back(at);
  if (size > 0) found.push_back(size - 1);
  return found;
}

class FuzzSeeds : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzSeeds, AreHeldWholeCutAndChanged) {
  const FuzzTarget& target = GetParam();
  const auto seeds = seeds_of(target);
  ASSERT_FALSE(seeds.empty());
  try_on(target, {});
  for (const auto& path : seeds) {
    SCOPED_TRACE(path.string());
    const std::string text = read_file(path);
    Bytes seed(text.begin(), text.end());
    try_on(target, seed);
    for (const std::size_t size : places(seed.size(), 40)) try_on(target, std::span(seed).first(size));
    for (const std::size_t at : places(seed.size(), 40)) {
      for (const std::uint8_t change : {0x01, 0x80, 0xff}) {
        seed[at] ^= change;
        try_on(target, seed);
        seed[at] ^= change;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FuzzSeeds, testing::ValuesIn(fuzz_targets()),
                         [](const auto& target) { return target.param.name; });

}  // namespace
}  // namespace zero
