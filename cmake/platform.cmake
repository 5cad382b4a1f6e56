# The system and the compiler that zero.cpp needs. Others would fail later, with long messages. tools/packages.sh and
# python/build_backend/build_inputs.py refuse the same before anything is built.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "zero.cpp builds and runs on Linux; this is ${CMAKE_SYSTEM_NAME}.")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "GCC ${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER}) is too old: 12 or newer is needed.\n"
    "  Set CXX to a newer one, and use an empty build folder.")
endif()
