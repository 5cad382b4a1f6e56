# zero_room(NAME FOLDER path EXCLUDE room...): one object library for a room of zero/, app/ or plugins/. It is compiled
# from every .cpp in the room and its inner rooms. FOLDER is zero/NAME by default. EXCLUDE names inner rooms that have a
# library of their own.
#
# zero_tests(FOLDER ROOMS room... LIBS library...): one GoogleTest program for a folder of tests/ and its inner folders,
# except those that APART names. FOLDERS names more folders. The program is linked only with the rooms that it may use,
# so the linker checks the floors a second time.
#
# The name of a suite says where its tests run. ctest runs the program as FOLDER with label LABEL (fast), without suites
# named ...Slow and ...Full. With the options SLOW and FULL these run as FOLDER_slow (label slow) and FOLDER_full (label
# full). With RECORDED the suites named ...OnAnyDevice run again, on a device that runs work late and finds races, as
# FOLDER_recorded (label full, ZERO_TEST_DEVICE=recorded). Each runs in SHARDS processes. `./test.sh fast` runs label
# fast, `./test.sh` all except full, `./test.sh full` all, with whole sweeps (tests/support/tier.h).
#
# ZERO_UNITY compiles several files of a folder at once. A whole build then takes a quarter of the time, and a build
# after a change in one file longer. quickstart.sh and test.sh use it. Leave it off while editing, as the presets do.
# Names in anonymous namespaces must differ within a room; those of tests may be equal (cmake/join_tests.sh).
option(ZERO_UNITY "compile several files at once: a faster whole build, a slower next one" OFF)
set(ZERO_TEST_PATIENCE 1 CACHE STRING "factor for the time limits of test suites; whole sweeps need 12")
set(ZERO_UNITY_FILES 10 CACHE STRING "files to compile at once with ZERO_UNITY; twice that with torch")

# Cuts a list of files into runs of at most ZERO_UNITY_FILES, of nearly equal length. Calls `make(OUT name files...)`
# for each run; OUT collects the results.
function(zero_in_runs make name out)
  list(LENGTH ARGN total)
  math(EXPR count "(${total} + ${ZERO_UNITY_FILES} - 1) / ${ZERO_UNITY_FILES}")
  set(runs)
  if(total GREATER 0)
    foreach(number RANGE 1 ${count})
      math(EXPR begin "(${number} - 1) * ${total} / ${count}")
      math(EXPR size "${number} * ${total} / ${count} - ${begin}")
      list(SUBLIST ARGN ${begin} ${size} files)
      cmake_language(CALL ${make} run "${name}_${number}" ${files})
      list(APPEND runs "${run}")
    endforeach()
  endif()
  set(${out} ${runs} PARENT_SCOPE)
endfunction()

# A file that includes others by their names from the root. It is the same in all clones, so they share the compiler's
# cache.
function(zero_including_file out name)
  set(text)
  foreach(source ${ARGN})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    string(APPEND text "#include \"${source}\"\n")
  endforeach()
  set(file "${PROJECT_BINARY_DIR}/joined/${name}.cpp")
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
  set(${out} "${file}" PARENT_SCOPE)
endfunction()

# The files from which a target is compiled: FILES, or with ZERO_UNITY several of them in one. Some files are always
# compiled separately: kernels for several instruction sets, which include themselves, and files with definitions of
# their own.
function(zero_joined name out)
  if(NOT ZERO_UNITY)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(alone)
  set(together)
  foreach(source ${ARGN})
    file(STRINGS "${source}" kernels REGEX "hwy/foreach_target.h|ZERO_PLUGIN_FOLDER" LIMIT_COUNT 1)
    if(kernels)
      list(APPEND alone "${source}")
    else()
      list(APPEND together "${source}")
    endif()
  endforeach()
  zero_in_runs(zero_including_file "${name}" joined ${together})
  set(${out} ${joined} ${alone} PARENT_SCOPE)
endfunction()

function(zero_joined_test_file out name)
  set(script "${PROJECT_SOURCE_DIR}/cmake/join_tests.sh")
  set(file "${PROJECT_BINARY_DIR}/joined/${name}.cpp")
  add_custom_command(OUTPUT "${file}" COMMAND "${script}" "${file}" "${PROJECT_SOURCE_DIR}" ${ARGN}
                     DEPENDS "${script}" ${ARGN} VERBATIM)
  set(${out} "${file}" PARENT_SCOPE)
endfunction()

function(zero_joined_tests folder out)
  if(NOT ZERO_UNITY)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/joined")
  zero_in_runs(zero_joined_test_file "${folder}_test" joined ${ARGN})
  set(${out} ${joined} PARENT_SCOPE)
endfunction()

# Under AddressSanitizer kernels are not optimized, because their compilation takes longer than all their tests.
function(zero_spare_kernels)
  if(NOT ZERO_SANITIZE MATCHES "address")
    return()
  endif()
  foreach(source ${ARGN})
    file(STRINGS "${source}" kernels REGEX "hwy/foreach_target.h" LIMIT_COUNT 1)
    if(kernels)
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# COLD: code that runs once, or at the user's pace. It is optimized less, which takes a fifth less time to compile.
function(zero_room name)
  cmake_parse_arguments(arg "TORCH;COLD" "FOLDER" "LIBS;EXCLUDE" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER "zero/${name}")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.cpp")
  foreach(inner ${arg_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "/${arg_FOLDER}/${inner}/")
  endforeach()
  # Tests link the verbs with a main function of their own.
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(arg_TORCH)
    math(EXPR ZERO_UNITY_FILES "2 * ${ZERO_UNITY_FILES}")
  endif()
  zero_joined(${name} joined ${sources})
  zero_spare_kernels(${sources})
  add_library(zero_${name} OBJECT ${joined})
  target_link_libraries(zero_${name} PUBLIC zero_flags ${arg_LIBS} PRIVATE zero_sanitizers)
  if(arg_COLD AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(zero_${name} PRIVATE -O1)
  endif()
  if(arg_TORCH)
    target_link_libraries(zero_${name} PUBLIC zero_libtorch)
    target_precompile_headers(zero_${name} REUSE_FROM zero_pch)
  else()
    target_precompile_headers(zero_${name} REUSE_FROM zero_core_pch)
  endif()
endfunction()

# A test program and its precompiled header must have the same kind of position-independent code and the same
# optimization, or the compiler refuses the header. Tests of the core process millions of elements, so -O1 saves more
# time than it takes to compile. With libtorch's headers it does not.
function(zero_compile_as_test target optimization)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC ${optimization})
  if(ZERO_SANITIZE_TESTS)
    target_link_libraries(${target} PRIVATE zero_sanitizers)
  endif()
endfunction()

# tests/support/this_build.h
function(zero_this_build target)
  if(NOT TARGET zero_this_build)
    set(file "${PROJECT_BINARY_DIR}/this_build.cpp")
    set(sanitized false)
    if(ZERO_SANITIZE)
      set(sanitized true)
    endif()
    file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT "#include \"tests/support/this_build.h\"
namespace zero::built {
const char* const kSourceFolder = \"@PROJECT_SOURCE_DIR@\";
const char* const kCommand = \"@CMAKE_RUNTIME_OUTPUT_DIRECTORY@/zero\";
const char* const kFaultWorker = \"@PROJECT_BINARY_DIR@/tests/zero_fault_worker\";
const char* const kFaultLeaver = \"@PROJECT_BINARY_DIR@/tests/zero_fault_leaver\";
const char* const kFaultSaver = \"@PROJECT_BINARY_DIR@/tests/zero_fault_saver\";
const char* const kFaultStruckPass = \"@PROJECT_BINARY_DIR@/tests/zero_fault_struck_pass\";
const bool kSanitized = @sanitized@;
}  // namespace zero::built
")
    add_library(zero_this_build OBJECT "${file}")
    target_link_libraries(zero_this_build PRIVATE zero_flags)
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:zero_this_build>)
endfunction()

# One test of ctest, or SHARDS of them: the tests of zero_tests' program that FILTER names, without those that BUT
# names. It reads variables of zero_tests: target, environment, arg_TIMEOUT. If several tests run at once, those with a
# higher COST begin first.
function(zero_ctest name filter)
  cmake_parse_arguments(entry "" "LABEL;SHARDS;COST" "BUT" ${ARGN})
  string(REPLACE ";" ":" filter "${filter}")
  if(entry_BUT)
    string(REPLACE ";" ":" but "${entry_BUT}")
    string(APPEND filter "-${but}")
  endif()
  foreach(shard RANGE 1 ${entry_SHARDS})
    set(test ${name})
    set(sharding)
    if(entry_SHARDS GREATER 1)
      set(test ${name}_${shard})
      math(EXPR index "${shard} - 1")
      set(sharding GTEST_TOTAL_SHARDS=${entry_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${test} COMMAND ${target} --gtest_brief=1 "--gtest_filter=${filter}"
             WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    set_tests_properties(${test} PROPERTIES LABELS ${entry_LABEL} COST ${entry_COST} TIMEOUT ${arg_TIMEOUT}
                         ENVIRONMENT "${environment};${sharding}")
  endforeach()
endfunction()

function(zero_tests folder)
  cmake_parse_arguments(arg "TORCH;SLOW;FULL;RECORDED" "LABEL;TIMEOUT;SHARDS" "FOLDERS;APART;ROOMS;LIBS" ${ARGN})
  if(NOT ZERO_TESTS)
    return()
  endif()
  set(sources)
  set(support)
  foreach(one ${folder} ${arg_FOLDERS})
    file(GLOB_RECURSE of_one CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${one}/*.cpp")
    foreach(apart ${arg_APART})
      list(FILTER of_one EXCLUDE REGEX "/tests/${one}/${apart}/")
    endforeach()
    list(APPEND support ${of_one})
  endforeach()
  set(sources ${support})
  list(FILTER sources INCLUDE REGEX "_test\\.cpp$")
  if(NOT sources)
    return()
  endif()
  list(REMOVE_ITEM support ${sources})
  foreach(suffix Slow Full)
    string(TOUPPER ${suffix} option)
    if(arg_${option})
      continue()
    endif()
    foreach(source ${sources})
      file(STRINGS "${source}" suites REGEX "^TEST(_F|_P)?\\([A-Za-z0-9]*${suffix}(OnAnyDevice)?," LIMIT_COUNT 1)
      if(suites)
        message(FATAL_ERROR "${source} has a suite ...${suffix}, which would never run: "
                "zero_tests(${folder}) needs ${option}")
      endif()
    endforeach()
  endforeach()
  if(arg_TORCH)
    math(EXPR ZERO_UNITY_FILES "2 * ${ZERO_UNITY_FILES}")
  endif()
  zero_joined_tests(${folder} joined ${sources})
  set(target zero_${folder}_test)
  # Objects of the tested rooms come first: if both have an inline function, the linker takes the one with sanitizers.
  list(TRANSFORM arg_ROOMS REPLACE "(.+)" "$<TARGET_OBJECTS:zero_\\1>" OUTPUT_VARIABLE tested)
  list(TRANSFORM arg_ROOMS PREPEND zero_ OUTPUT_VARIABLE rooms)
  add_executable(${target} ${tested} ${joined} ${support})
  target_link_libraries(${target} PRIVATE ${rooms})
  target_link_libraries(${target} PRIVATE zero_flags ${arg_LIBS} GTest::gtest GTest::gtest_main rapidcheck)
  zero_this_build(${target})
  if(arg_TORCH)
    target_link_libraries(${target} PRIVATE zero_libtorch)
    target_precompile_headers(${target} REUSE_FROM zero_torch_test_pch)
    zero_compile_as_test(${target} -O0)
  else()
    target_precompile_headers(${target} REUSE_FROM zero_test_pch)
    zero_compile_as_test(${target} -O1)
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  if(NOT arg_LABEL)
    set(arg_LABEL fast)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # the limit of a hang, not of a slow machine
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${ZERO_TEST_PATIENCE}")
  if(ZERO_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3")  # instrumented code is several times slower
  endif()
  set(environment ZERO_LOG_LEVEL=error)  # tests provoke messages on purpose
  if(ZERO_SANITIZE STREQUAL "thread")
    list(APPEND environment "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tools/tsan_suppressions.txt")
  endif()
  set(shards 1)
  set(cost 10)
  if(NOT arg_LABEL STREQUAL fast)
    set(cost 50)
  endif()
  if(ZERO_SANITIZE OR NOT arg_LABEL STREQUAL fast)  # otherwise it ends before the others
    set(shards ${arg_SHARDS})
  endif()
  set(slow_suites "*Slow.*" "*SlowOnAnyDevice.*")
  set(full_suites "*Full.*")
  zero_ctest(${folder} "*" LABEL ${arg_LABEL} SHARDS ${shards} COST ${cost} BUT ${slow_suites} ${full_suites})
  if(arg_SLOW)
    zero_ctest(${folder}_slow "${slow_suites}" LABEL slow SHARDS ${arg_SHARDS} COST 100)
  endif()
  if(arg_FULL)
    zero_ctest(${folder}_full "${full_suites}" LABEL full SHARDS ${arg_SHARDS} COST 1000)
  endif()
  if(arg_RECORDED)
    list(APPEND environment ZERO_TEST_DEVICE=recorded)
    zero_ctest(${folder}_recorded "*OnAnyDevice.*" LABEL full SHARDS ${arg_SHARDS} COST 900)
  endif()
endfunction()
