# The plug-in for NVIDIA GPUs, libzero_device_cuda.so (plugins/cuda). It is built with ZERO_CUDA=ON, or with auto if
# nvcc is found.
#
# nvcc is found in PATH, CUDA_HOME, /usr/local/cuda, or the wheels nvidia-cuda-nvcc, -nvvm, -crt, -cccl and -runtime of
# an active virtual environment. Custom commands compile the .cu files: kernels for GPUs of compute capability 8.0, 9.0
# and 10.0, and PTX of 10.0. Later GPUs compile that when they load it. The rest of the plug-in is plain C++. It links
# libcudart and no library of ours, and no library of ours links it. A build without it differs only by that file.
#
# The target zero_cuda_ptx is the kernels' PTX. tools/check_ptx.py checks it: no fused multiply-add, only rounding to
# the nearest.
set(ZERO_CUDA OFF CACHE STRING "the plug-in for NVIDIA GPUs: OFF, ON, or auto (if nvcc is found)")
set_property(CACHE ZERO_CUDA PROPERTY STRINGS OFF ON auto)
set(ZERO_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "compute capabilities that kernels are compiled for")
if(NOT ZERO_CUDA)
  return()
endif()

file(GLOB cuda_wheels "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu13/bin")
find_program(ZERO_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin ${cuda_wheels})
if(ZERO_NVCC)
  file(REAL_PATH "${ZERO_NVCC}" nvcc)
  cmake_path(GET nvcc PARENT_PATH cuda_root)
  cmake_path(GET cuda_root PARENT_PATH cuda_root)
  find_path(ZERO_CUDA_INCLUDE cuda_runtime_api.h HINTS "${cuda_root}/include" NO_DEFAULT_PATH)
  find_file(ZERO_CUDART NAMES libcudart.so.13 libcudart.so HINTS "${cuda_root}/lib64" "${cuda_root}/lib"
            NO_DEFAULT_PATH)
endif()
if(NOT ZERO_NVCC OR NOT ZERO_CUDA_INCLUDE OR NOT ZERO_CUDART)
  string(CONCAT reason "needs nvcc 13 with its headers and libcudart; found: nvcc ${ZERO_NVCC}, "
         "headers ${ZERO_CUDA_INCLUDE}, libcudart ${ZERO_CUDART}")
  if(NOT ZERO_CUDA STREQUAL "auto")
    message(FATAL_ERROR "ZERO_CUDA=${ZERO_CUDA} ${reason}")
  endif()
  message(STATUS "device cuda: not built (${reason})")
  return()
endif()

set(cuda_flags -std=c++20 --expt-relaxed-constexpr -fmad=false "-I${PROJECT_SOURCE_DIR}" -ccbin "${CMAKE_CXX_COMPILER}")
set(cuda_code)
foreach(number ${ZERO_CUDA_ARCHITECTURES})
  list(APPEND cuda_code "-gencode=arch=compute_${number},code=sm_${number}")
  set(newest ${number})
endforeach()
list(APPEND cuda_code "-gencode=arch=compute_${newest},code=compute_${newest}")

set(cuda_folder "${PROJECT_BINARY_DIR}/cuda")
file(MAKE_DIRECTORY "${cuda_folder}")
file(GLOB cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/plugins/cuda/*.cu")
set(cuda_objects)
set(cuda_ptx)
foreach(source ${cuda_sources})
  cmake_path(GET source STEM name)
  set(object "${cuda_folder}/${name}.o")
  add_custom_command(OUTPUT "${object}" DEPFILE "${object}.d" DEPENDS "${source}" VERBATIM
    COMMAND "${ZERO_NVCC}" ${cuda_flags} ${cuda_code} -O3 -Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off,-Wall
            -MD -MF "${object}.d" -c "${source}" -o "${object}")
  list(APPEND cuda_objects "${object}")
  foreach(number ${ZERO_CUDA_ARCHITECTURES})
    set(ptx "${cuda_folder}/${name}.${number}.ptx")
    add_custom_command(OUTPUT "${ptx}" DEPFILE "${ptx}.d" DEPENDS "${source}" VERBATIM
      COMMAND "${ZERO_NVCC}" ${cuda_flags} -arch=compute_${number} -MD -MF "${ptx}.d" -ptx "${source}" -o "${ptx}")
    list(APPEND cuda_ptx "${ptx}")
  endforeach()
endforeach()

file(GLOB cuda_plain CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/plugins/cuda/*.cpp")
add_library(zero_device_cuda MODULE ${cuda_plain} ${cuda_objects})
set_source_files_properties(${cuda_objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
target_include_directories(zero_device_cuda SYSTEM PRIVATE "${ZERO_CUDA_INCLUDE}")
target_link_libraries(zero_device_cuda PRIVATE zero_flags zero_sanitizers "${ZERO_CUDART}")
target_link_options(zero_device_cuda PRIVATE -Wl,-z,defs)
set_target_properties(zero_device_cuda PROPERTIES CXX_VISIBILITY_PRESET hidden)
add_dependencies(zero_core zero_device_cuda)

# ---- tests: on a libcudart that has no GPU, and of the PTX -----------------------------------------------------------
if(TARGET zero_cuda_test)
  add_library(zero_fake_cudart SHARED "${PROJECT_SOURCE_DIR}/tests/cuda/fake_cudart/fake_cudart.cpp")
  target_include_directories(zero_fake_cudart SYSTEM PRIVATE "${ZERO_CUDA_INCLUDE}")
  target_include_directories(zero_fake_cudart PRIVATE "${PROJECT_SOURCE_DIR}")
  set(versions "${PROJECT_SOURCE_DIR}/tests/cuda/fake_cudart/versions.map")
  target_link_options(zero_fake_cudart PRIVATE "-Wl,--version-script=${versions}")
  set_target_properties(zero_fake_cudart PROPERTIES OUTPUT_NAME cudart SOVERSION 13 LINK_DEPENDS "${versions}"
                        LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fake_cudart")
  add_dependencies(zero_cuda_test zero_device_cuda zero_fake_cudart)

  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    add_custom_target(zero_cuda_ptx ALL DEPENDS ${cuda_ptx})
    add_test(NAME cuda_ptx COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/check_ptx.py" ${cuda_ptx})
    set_tests_properties(cuda_ptx PROPERTIES LABELS fast)
  endif()
endif()
