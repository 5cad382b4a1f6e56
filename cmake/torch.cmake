# Imported targets for libtorch from a wheel, without find_package(Torch). A CUDA wheel's package file requires a CUDA
# toolkit at configure time, although a program needs only libc10 and libtorch_cpu.
#
# ZERO_TORCH is the folder with include/ and lib/ (a wheel's torch/, or an unpacked libtorch). By default it is the
# environment variable of that name, then the cache of quickstart.sh, then the PyTorch that python3 imports.
set(ZERO_TORCH_VERSION 2.11.0)

if(NOT ZERO_TORCH AND DEFINED ENV{ZERO_TORCH})
  set(ZERO_TORCH "$ENV{ZERO_TORCH}")
endif()
if(NOT ZERO_TORCH)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  if(EXISTS "${cache}/zero.cpp/torch-${ZERO_TORCH_VERSION}/torch/lib/libtorch_cpu.so")
    set(ZERO_TORCH "${cache}/zero.cpp/torch-${ZERO_TORCH_VERSION}/torch")
  endif()
endif()
if(NOT ZERO_TORCH)
  execute_process(COMMAND python3 -c "import torch, os; print(os.path.dirname(torch.__file__))"
                  OUTPUT_VARIABLE ZERO_TORCH OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS "${ZERO_TORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch not found (looked at ZERO_TORCH='${ZERO_TORCH}').\n"
    "  Run ./quickstart.sh, which fetches it, or set ZERO_TORCH to a folder with include/ and lib/libtorch_cpu.so,\n"
    "  or build only the torch-free core with -DZERO_WITH_TORCH=OFF.")
endif()
set(ZERO_TORCH "${ZERO_TORCH}" CACHE PATH "libtorch: the folder with include/ and lib/" FORCE)
message(STATUS "libtorch: ${ZERO_TORCH}")

foreach(lib c10 torch_cpu)
  add_library(zero_torch_${lib} SHARED IMPORTED GLOBAL)
  set_target_properties(zero_torch_${lib} PROPERTIES
    IMPORTED_LOCATION "${ZERO_TORCH}/lib/lib${lib}.so" IMPORTED_NO_SONAME TRUE)
  set_target_properties(zero_torch_${lib} PROPERTIES IMPORTED_NO_SONAME FALSE IMPORTED_SONAME "lib${lib}.so")
endforeach()
add_library(zero_libtorch INTERFACE)
target_include_directories(zero_libtorch SYSTEM INTERFACE
  "${ZERO_TORCH}/include" "${ZERO_TORCH}/include/torch/csrc/api/include")
# The wheel has its own fmt headers, which come first. Their version differs from the system library's.
target_compile_definitions(zero_libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1 FMT_HEADER_ONLY=1)
target_link_options(zero_libtorch INTERFACE "LINKER:--no-as-needed" "LINKER:--allow-shlib-undefined")
if(NOT ZERO_WHEEL)  # a wheel finds torch beside itself (python_wheel.cmake)
  target_link_options(zero_libtorch INTERFACE "LINKER:-rpath,${ZERO_TORCH}/lib")
endif()
target_link_libraries(zero_libtorch INTERFACE zero_torch_torch_cpu zero_torch_c10)
