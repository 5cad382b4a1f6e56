// The functions of the fuzzers, tests/fuzz/NAME_fuzz.cpp, in one program. CMake writes the list (cmake/fuzz_seeds.cmake).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

struct FuzzTarget {
  std::string name;
  int (*run)(const std::uint8_t* data,
             std::size_t size);  // aborts, or a sanitizer ends it, where the code does not hold
};

std::vector<FuzzTarget> fuzz_targets();

}  // namespace zero
