// FuzzTarget: the function of a fuzzer, tests/fuzz/NAME_fuzz.cpp. All are in one program. CMake writes the list
// (cmake/fuzz_seeds.cmake).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

struct FuzzTarget {
  std::string name;
  int (*run)(const std::uint8_t* data,
             std::size_t size);  // aborts if a check fails
};

std::vector<FuzzTarget> fuzz_targets();

}  // namespace zero
