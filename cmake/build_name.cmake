# The name of a build, "0.1.0, commit 8e28e7a1d0c2", in the command, libzero_app.so and libzero_core.so
# (app/cli/command/build.h). Each build asks git for the commit and writes a header with it. Sources inside another
# repository, such as an unpacked sdist, have no commit. The header keeps its time if the commit is the same. After a
# commit two small files are compiled, and their users are linked again. As a script (-P), with VERSION, SOURCE and
# OUTPUT, this file writes the header.
if(CMAKE_SCRIPT_MODE_FILE)
  set(name "${VERSION}")
  execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD RESULT_VARIABLE status OUTPUT_VARIABLE commit
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND git -C "${SOURCE}" rev-parse --show-toplevel OUTPUT_VARIABLE repository
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${SOURCE}" source)
  if(status EQUAL 0 AND repository STREQUAL source)
    string(APPEND name ", commit ${commit}")
  endif()
  file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define ZERO_BUILD_NAME \"${name}\"\n" @ONLY)
  return()
endif()

set(build_name_folder "${PROJECT_BINARY_DIR}/build_name")
set(build_name_command "${CMAKE_COMMAND}" "-DVERSION=${PROJECT_VERSION}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
    "-DOUTPUT=${build_name_folder}/build_name.h" -P "${CMAKE_CURRENT_LIST_FILE}")
add_custom_target(zero_build_name_header
  COMMAND ${build_name_command} BYPRODUCTS "${build_name_folder}/build_name.h" VERBATIM)

file(CONFIGURE OUTPUT "${build_name_folder}/own.cpp" @ONLY CONTENT "#include \"app/cli/command/build.h\"

#include \"build_name.h\"
const char* zero::cli::build_name() { return ZERO_BUILD_NAME; }
")
file(CONFIGURE OUTPUT "${build_name_folder}/core.cpp" @ONLY CONTENT "#include \"build_name.h\"
extern \"C\" const char* zero_core_build_name() { return ZERO_BUILD_NAME; }
")
foreach(name own core)
  add_library(zero_build_name_${name} OBJECT "${build_name_folder}/${name}.cpp")
  target_link_libraries(zero_build_name_${name} PRIVATE zero_flags)
  target_include_directories(zero_build_name_${name} PRIVATE "${build_name_folder}")
  add_dependencies(zero_build_name_${name} zero_build_name_header)
endforeach()
