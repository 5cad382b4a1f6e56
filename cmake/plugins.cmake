# Transports that stand on a library of the distribution: each a shared library that zero_core opens when asked for it
# (zero/comm/plugin.h). Where the library is not installed the plug-in is not built, and says so here and in `zero doctor`.
# They link nothing of ours: zero/comm/message_link.h is the whole border.
function(zero_plugin name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/zero/comm/plugins/${name}/*.cpp")
  add_library(zero_comm_${name} MODULE ${sources})
  target_link_libraries(zero_comm_${name} PRIVATE zero_flags ${arg_LIBS})
  set_target_properties(zero_comm_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  # Whoever uses zero_core, or tests it, finds the plug-ins beside it.
  add_dependencies(zero_core zero_comm_${name})
  foreach(folder comm world)
    if(TARGET zero_${folder}_test)
      add_dependencies(zero_${folder}_test zero_comm_${name})
    endif()
  endforeach()
endfunction()

target_compile_definitions(zero_comm PRIVATE ZERO_PLUGIN_FOLDER="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")

# ---- mpi: Open MPI or MPICH, whichever mpi.pc the system points to ------------------------------------------------------
pkg_search_module(mpi QUIET IMPORTED_TARGET mpi-c ompi-c mpi ompi mpich)
if(mpi_FOUND)
  zero_plugin(mpi LIBS PkgConfig::mpi)
  # The C interface alone: the C++ one is gone from MPI-3.
  target_compile_definitions(zero_comm_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  find_program(ZERO_MPIRUN NAMES mpirun mpiexec)
else()
  message(STATUS "transport mpi: not built (install libopenmpi-dev and openmpi-bin)")
endif()
if(TARGET zero_world_test)
  target_compile_definitions(zero_world_test PRIVATE ZERO_MPIRUN="$<$<BOOL:${mpi_FOUND}>:${ZERO_MPIRUN}>")
endif()

# The ranks' meeting place is Gloo's client and our server: the server is tested also where there is no Gloo.
if(TARGET zero_comm_test)
  target_sources(zero_comm_test PRIVATE "${PROJECT_SOURCE_DIR}/zero/comm/plugins/gloo/store_messages.cpp"
                 "${PROJECT_SOURCE_DIR}/zero/comm/plugins/gloo/store_server.cpp")
endif()

# ---- gloo ----------------------------------------------------------------------------------------------------------
find_path(GLOO_INCLUDE gloo/allreduce.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE AND GLOO_LIBRARY)
  zero_plugin(gloo LIBS ${GLOO_LIBRARY})
  target_include_directories(zero_comm_gloo SYSTEM PRIVATE ${GLOO_INCLUDE})
else()
  message(STATUS "transport gloo: not built (install libgloo-dev)")
endif()
