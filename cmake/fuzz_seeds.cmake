# The fuzzers' functions and their seeds as a test program, for builds with AddressSanitizer. It needs no clang, and
# compiles only these functions. tests/fuzz/seeds_test.cpp runs them; cmake/fuzz.cmake builds the fuzzers themselves.
if(NOT ZERO_TESTS OR NOT ZERO_SANITIZE MATCHES "address")
  return()
endif()

set(declared)
set(listed)
file(GLOB fuzz_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
foreach(file ${fuzz_files})
  cmake_path(GET file STEM name)
  set_source_files_properties("${file}" PROPERTIES COMPILE_DEFINITIONS "LLVMFuzzerTestOneInput=${name}")
  string(APPEND declared "extern \"C\" int ${name}(const std::uint8_t*, std::size_t);\n")
  string(REGEX REPLACE "_fuzz$" "" seeds "${name}")
  string(APPEND listed "{\"${seeds}\", ${name}}, ")
endforeach()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/fuzz_targets.cpp" @ONLY CONTENT "#include \"tests/fuzz/targets.h\"
@declared@
std::vector<zero::FuzzTarget> zero::fuzz_targets() { return {@listed@}; }
")

zero_tests(fuzz ROOMS base device plan comm memory optim engine checkpoint launch data config)
target_sources(zero_fuzz_test PRIVATE "${PROJECT_BINARY_DIR}/fuzz_targets.cpp")
