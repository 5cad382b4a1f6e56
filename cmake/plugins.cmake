# Plug-ins: code that needs libraries of the distribution that the core does not link. Each plug-in is a shared library,
# which zero_core opens on request. A transport whose library is not installed is not built; a message here and `zero
# doctor` say so. Plug-ins link nothing of ours. One header is the whole border (zero/comm/message/message_link.h,
# zero/plan/placement/solver_border.h).
#
# zero_plugin(KIND NAME TESTS folder... LIBS library... SOURCES file...) builds plugins/NAME, with these files
# of zero/ beside it, as libzero_KIND_NAME.so.
function(zero_plugin kind name)
  cmake_parse_arguments(arg "" "" "TESTS;LIBS;SOURCES" ${ARGN})
  set(target zero_${kind}_${name})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/plugins/${name}/*.cpp")
  foreach(source ${arg_SOURCES})
    list(APPEND sources "${PROJECT_SOURCE_DIR}/zero/${source}.cpp")
  endforeach()
  zero_joined("${kind}_${name}" joined ${sources})
  add_library(${target} MODULE ${joined})
  target_link_libraries(${target} PRIVATE zero_flags zero_sanitizers ${arg_LIBS})
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  # Users and tests of zero_core find the plug-ins beside it.
  add_dependencies(zero_core ${target})
  foreach(folder ${arg_TESTS})
    if(TARGET zero_${folder}_test)
      add_dependencies(zero_${folder}_test ${target})
    endif()
  endforeach()
endfunction()

# A definition of only this file, so all other files compile to the same objects in every clone. A wheel names no build
# folder.
if(NOT ZERO_WHEEL)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/zero/base/files/plugin_file.cpp" PROPERTIES
    COMPILE_DEFINITIONS ZERO_PLUGIN_FOLDER="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
endif()

# ---- clp: the solver of placements; not optional --------------------------------------------------------------------
# Uses Clp's C interface, so this one library is linked. It needs a BLAS of its own, which is the reason not to link it
# into zero_core (docs/decisions/0007-lp-solver-is-a-plug-in.md).
zero_plugin(plan clp TESTS plan engine LIBS ${CLP_LIBRARY})
target_include_directories(zero_plan_clp SYSTEM PRIVATE ${CLP_INCLUDE})

# ---- mpi: Open MPI or MPICH, whichever mpi.pc the system points to ---------------------------------------------------
pkg_search_module(mpi QUIET IMPORTED_TARGET mpi-c ompi-c mpi ompi mpich)
if(mpi_FOUND)
  zero_plugin(transport mpi TESTS comm world LIBS PkgConfig::mpi)
  # Only the C interface, because MPI 3 has no C++ interface.
  target_compile_definitions(zero_transport_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  find_program(ZERO_MPIRUN NAMES mpirun mpiexec)
else()
  message(STATUS "transport mpi: not built (install libopenmpi-dev and openmpi-bin)")
endif()
if(TARGET zero_world_test)
  target_compile_definitions(zero_world_test PRIVATE ZERO_MPIRUN="$<$<BOOL:${mpi_FOUND}>:${ZERO_MPIRUN}>")
endif()

# The ranks' rendezvous is Gloo's client and our server. The server is also tested without Gloo.
if(TARGET zero_comm_test)
  foreach(source store_server waiters)
    target_sources(zero_comm_test PRIVATE "${PROJECT_SOURCE_DIR}/plugins/gloo/${source}.cpp")
  endforeach()
  target_link_libraries(zero_comm_test PRIVATE OpenSSL::Crypto)
endif()

# ---- gloo ----------------------------------------------------------------------------------------------------------
find_path(GLOO_INCLUDE gloo/allreduce.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE AND GLOO_LIBRARY)
  zero_plugin(transport gloo TESTS comm world LIBS ${GLOO_LIBRARY} OpenSSL::Crypto
              SOURCES comm/rendezvous/handshake comm/rendezvous/store_messages comm/rendezvous/store_session
              comm/rendezvous/tcp_sockets)
  target_include_directories(zero_transport_gloo SYSTEM PRIVATE ${GLOO_INCLUDE})
else()
  message(STATUS "transport gloo: not built (install libgloo-dev)")
endif()

# ---- nccl: needs neither NCCL nor CUDA to build; opens libnccl.so.2 when GPUs exchange bytes -------------------------
zero_plugin(transport nccl TESTS comm LIBS ${CMAKE_DL_LIBS})
if(TARGET zero_comm_test)
  add_library(zero_fake_nccl SHARED "${PROJECT_SOURCE_DIR}/tests/comm/transport/fake_nccl/fake_nccl.cpp")
  target_link_libraries(zero_fake_nccl PRIVATE zero_flags)
  set_target_properties(zero_fake_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2
                        LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fake_nccl")
  add_dependencies(zero_comm_test zero_fake_nccl)
endif()
