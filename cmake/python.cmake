# zerocpp._C, the extension of the Python package, and the package in build/<preset>/python for tests (PYTHONPATH).
#
# ZERO_PYTHON: ON, OFF, or AUTO (if there are headers of the Python for which this libtorch was built). A libtorch wheel
# serves one version of Python: the name of its torch/_C.*.so has the version.
set(ZERO_PYTHON AUTO CACHE STRING "the Python package: ON, OFF or AUTO")
if(NOT ZERO_PYTHON OR NOT ZERO_WITH_TORCH OR ZERO_SANITIZE)
  return()
endif()
file(GLOB torch_extension "${ZERO_TORCH}/_C.cpython-*.so")
find_package(Python3 COMPONENTS Interpreter Development.Module QUIET)
set(missing)
if(NOT Python3_Development.Module_FOUND)
  set(missing "the headers of python3 (python3-dev) are not here")
elseif(NOT torch_extension MATCHES "cpython-${Python3_VERSION_MAJOR}${Python3_VERSION_MINOR}-")
  set(missing "this libtorch is not for Python ${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}")
endif()
if(missing)
  if(ZERO_PYTHON STREQUAL "ON")
    message(FATAL_ERROR "The Python package can't be built: ${missing}.")
  endif()
  message(STATUS "Python package: not built, because ${missing}")
  return()
endif()

set(package "${PROJECT_BINARY_DIR}/python/zerocpp")
# _torch_check.py refuses a torch whose minor version differs from the one in this file.
file(STRINGS "${ZERO_TORCH}/include/torch/headeronly/version.h" torch_version
     REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" torch_version "${torch_version}")
list(JOIN torch_version "." torch_version)
file(WRITE "${package}/built_for.txt" "${torch_version}\n")
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/extension/*.cpp")
Python3_add_library(zero_python MODULE WITH_SOABI ${sources})
target_include_directories(zero_python SYSTEM PRIVATE "${ZERO_TORCH}/include")
target_compile_options(zero_python PRIVATE -fvisibility=hidden -O1)
target_link_libraries(zero_python PRIVATE
  zero zero_core zero_flags zero_libtorch "${ZERO_TORCH}/lib/libtorch_python.so")
set_target_properties(zero_python PROPERTIES OUTPUT_NAME _C
                      LIBRARY_OUTPUT_DIRECTORY "${package}" INSTALL_RPATH "$ORIGIN/lib")
file(GLOB_RECURSE modules CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/zerocpp/*.py")
add_custom_target(zero_python_package ALL
  COMMAND "${CMAKE_COMMAND}" -E copy_directory "${PROJECT_SOURCE_DIR}/python/zerocpp" "${package}"
  DEPENDS zero_python VERBATIM)
