# Fuzzers: tests/fuzz/NAME_fuzz.cpp becomes the program NAME_fuzz (clang's libFuzzer, with the address and undefined
# behaviour sanitizers). They need clang and are built only on request:
#
#   cmake -S . -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DZERO_FUZZ=ON -DZERO_WITH_TORCH=OFF -DZERO_TESTS=OFF
#   cmake --build build/fuzz --target fuzzers && ctest --test-dir build/fuzz -L fuzz
#
# zero_fuzzer(NAME SOURCES ... LIBS ...) lists the sources and libraries of a program beyond its own file. The sources
# are compiled again, because the fuzzer must be compiled in. Each program is a test of ZERO_FUZZ_SECONDS, which starts
# from the seeds in tests/fuzz/seeds/NAME if there are any. After a crash the build folder has its input.
option(ZERO_FUZZ "build the fuzzers (clang only)" OFF)
set(ZERO_FUZZ_SECONDS 15 CACHE STRING "seconds that a fuzzer runs as a test")

if(NOT ZERO_FUZZ)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "ZERO_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
endif()

enable_testing()
add_custom_target(fuzzers)
set(fuzz_base zero/base/error/error.cpp zero/base/error/check.cpp zero/base/text/bytes.cpp)
set(fuzz_file zero/base/files/file.cpp zero/base/files/input_file.cpp)

function(zero_fuzzer name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  list(TRANSFORM arg_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/")
  add_executable(${name}_fuzz "${PROJECT_SOURCE_DIR}/tests/fuzz/${name}_fuzz.cpp" ${arg_SOURCES})
  set(sanitizers fuzzer,address,undefined)
  target_compile_options(${name}_fuzz PRIVATE -O1 -g1 -fsanitize=${sanitizers} -fno-sanitize-recover=all)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=${sanitizers})
  target_link_libraries(${name}_fuzz PRIVATE zero_flags ${arg_LIBS})
  add_dependencies(fuzzers ${name}_fuzz)

  set(corpus "${PROJECT_BINARY_DIR}/corpus/${name}")
  file(MAKE_DIRECTORY "${corpus}")
  set(seeds "${PROJECT_SOURCE_DIR}/tests/fuzz/seeds/${name}")
  if(NOT EXISTS "${seeds}")
    set(seeds)
  endif()
  add_test(NAME fuzz_${name} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
           COMMAND ${name}_fuzz -max_total_time=${ZERO_FUZZ_SECONDS} -rss_limit_mb=1024 -timeout=5 "${corpus}" ${seeds})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 600)
endfunction()

zero_fuzzer(safetensors LIBS nlohmann_json::nlohmann_json
            SOURCES ${fuzz_base} zero/checkpoint/safetensors/element_type.cpp
            zero/checkpoint/safetensors/safetensors_header.cpp)
zero_fuzzer(weight_index LIBS nlohmann_json::nlohmann_json
            SOURCES ${fuzz_base} zero/base/files/strict_json.cpp zero/checkpoint/safetensors/weight_index.cpp)
zero_fuzzer(manifest LIBS nlohmann_json::nlohmann_json OpenSSL::Crypto
            SOURCES ${fuzz_base} zero/base/files/sha256.cpp zero/checkpoint/safetensors/element_type.cpp
            zero/base/files/strict_json.cpp zero/checkpoint/image/manifest.cpp)
zero_fuzzer(flight LIBS nlohmann_json::nlohmann_json
            SOURCES ${fuzz_base} zero/base/files/file.cpp zero/base/process/pages.cpp zero/base/files/strict_json.cpp
            zero/comm/flight/record.cpp zero/comm/flight/ring.cpp zero/comm/flight/file.cpp
            zero/comm/flight/diagnosis.cpp)
zero_fuzzer(store LIBS OpenSSL::Crypto
            SOURCES ${fuzz_base} zero/base/files/file.cpp zero/comm/rendezvous/handshake.cpp
            zero/comm/rendezvous/store_messages.cpp zero/comm/rendezvous/store_session.cpp)
zero_fuzzer(memory_server
            SOURCES ${fuzz_base} zero/base/files/file.cpp zero/base/files/random_bytes.cpp
            zero/comm/rendezvous/unix_socket.cpp app/launch/held/memory_server.cpp app/launch/held/memory_files.cpp)
zero_fuzzer(tokens SOURCES ${fuzz_base} ${fuzz_file} app/data/tokens/token_stream.cpp)
zero_fuzzer(idx LIBS ZLIB::ZLIB SOURCES ${fuzz_base} ${fuzz_file} app/data/images/gzip.cpp app/data/images/idx.cpp)
set(fuzz_tables app/data/tables/csv.cpp app/data/sample/csv_reader.cpp app/data/sample/label_words.cpp
    zero/base/text/terminal_text.cpp)
zero_fuzzer(csv SOURCES ${fuzz_base} ${fuzz_file} ${fuzz_tables})
zero_fuzzer(tsv LIBS PkgConfig::utf8proc
            SOURCES ${fuzz_base} ${fuzz_file} ${fuzz_tables} app/data/sample/held_out.cpp
            app/data/texts/labelled_texts.cpp app/data/tokens/vocabulary.cpp app/data/tokens/bert_words.cpp
            app/data/sample/sample_order.cpp)
zero_fuzzer(config
            SOURCES ${fuzz_base} zero/base/files/data_files.cpp zero/base/numbers/memory_budget.cpp
            app/config/options/value.cpp app/config/toml_source.cpp app/config/options/suggest.cpp
            app/config/options/option.cpp app/config/options/option_allowed.cpp app/config/options/unknown_key.cpp
            app/config/options/option_table.cpp app/config/resolved.cpp)

file(GLOB fuzz_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
foreach(fuzz_file_path ${fuzz_files})
  cmake_path(GET fuzz_file_path STEM fuzz_target)
  if(NOT TARGET ${fuzz_target})
    message(FATAL_ERROR "${fuzz_file_path} is not built: add its zero_fuzzer(...) line to cmake/fuzz.cmake")
  endif()
endforeach()
