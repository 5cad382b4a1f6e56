# cmake -DBUILD=... -DSOURCE=... -DCOMPILER=... -DCCACHE=... -P check_package.cmake
#
# Checks the installed tree. Projects that only call find_package(zero) are built against it. examples/own_module trains
# on one rank and on two. examples/gan trains on two, is killed after a save, and continues. No installed file may look
# into the build folder.
set(installed "${BUILD}/installed")
set(example "${BUILD}/own_module")
set(gan "${BUILD}/gan")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  list(JOIN ARGN " " command)
  message("$ ${command}\n${output}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "exit status ${status}: ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

if(CCACHE)  # as in the project itself, so clones share the cache
  set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${CCACHE}")
  set(ENV{CCACHE_BASEDIR} "${SOURCE}")
  set(ENV{CCACHE_NOHASHDIR} 1)
endif()
file(REMOVE_RECURSE "${installed}" "${example}" "${gan}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${installed}")

file(GLOB binaries "${installed}/bin/*" "${installed}/lib*/*.so")
foreach(binary ${binaries})
  file(READ_ELF "${binary}" RUNPATH runpath RPATH rpath)
  if("${runpath};${rpath}" MATCHES "${BUILD}/lib")
    message(FATAL_ERROR "${binary} looks for libraries in the build folder: ${runpath}${rpath}")
  endif()
endforeach()

foreach(folder "${example}" "${gan}")
  get_filename_component(name "${folder}" NAME)
  run("${CMAKE_COMMAND}" -S "${SOURCE}/examples/${name}" -B "${folder}" -G Ninja "-DCMAKE_CXX_COMPILER=${COMPILER}"
      "-DCMAKE_CXX_FLAGS=-O0" "-DCMAKE_PREFIX_PATH=${installed}")
  run("${CMAKE_COMMAND}" --build "${folder}")
endforeach()
foreach(ranks 1 2)
  run("${installed}/bin/zero" launch --nproc-per-node ${ranks} -- "${example}/own_module")
  if(NOT output MATCHES "loss .* on ${ranks} rank")
    message(FATAL_ERROR "the example ran, but not on ${ranks} ranks")
  endif()
endforeach()

# The run that continues prints no step before its checkpoint.
set(trains_gan "${installed}/bin/zero" launch --nproc-per-node 2 -- "${gan}/gan" "${gan}/checkpoint")
run(sh "${SOURCE}/cmake/kill_after_save.sh" "${gan}/checkpoint" ${trains_gan})
run(${trains_gan})
if(output MATCHES "step 50:" OR NOT output MATCHES "step 1000:.*mean distance")
  message(FATAL_ERROR "the killed example did not continue from its checkpoint")
endif()
