# tests/faults: kills and stops real ranks from outside. It needs the command, a program for its ranks, and `zero train`
# if there is libtorch.
if(NOT TARGET zero_executable OR NOT ZERO_TESTS)
  return()
endif()

# Over 20 s: each test starts runs of several ranks, kills or stops some, and waits until the other ranks notice.
zero_tests(faults LABEL slow SHARDS 8 TIMEOUT 600)
get_target_property(fault_sources zero_faults_test SOURCES)
foreach(program worker saver leaver struck_pass)  # each has its own main
  set(program_source "${PROJECT_SOURCE_DIR}/tests/faults/programs/${program}.cpp")
  list(REMOVE_ITEM fault_sources "${program_source}")
  if(program STREQUAL struck_pass AND NOT TARGET zero)
    continue()  # it needs libtorch
  endif()
  add_executable(zero_fault_${program} "${program_source}")
  target_link_libraries(zero_fault_${program} PRIVATE zero_core)
  set_target_properties(zero_fault_${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endforeach()
target_sources(zero_fault_saver PRIVATE $<TARGET_OBJECTS:zero_recorded_device>)
set_target_properties(zero_faults_test PROPERTIES SOURCES "${fault_sources}")

add_dependencies(zero_faults_test zero_executable zero_fault_worker zero_fault_saver zero_fault_leaver)
if(TARGET zero)
  # As its precompiled header.
  target_link_libraries(zero_fault_struck_pass PRIVATE zero zero_flags zero_libtorch GTest::gtest)
  target_precompile_headers(zero_fault_struck_pass REUSE_FROM zero_torch_test_pch)
  zero_compile_as_test(zero_fault_struck_pass -O0)
  add_dependencies(zero_faults_test zero zero_fault_struck_pass)
endif()
if(TARGET zero_transport_gloo)
  add_dependencies(zero_faults_test zero_transport_gloo)
endif()
target_compile_definitions(zero_faults_test PRIVATE
  ZERO_MPIRUN="$<$<BOOL:${ZERO_MPIRUN}>:${ZERO_MPIRUN}>"
  ZERO_CAN_TRAIN=$<BOOL:${ZERO_WITH_TORCH}>
  ZERO_HAS_GLOO=$<TARGET_EXISTS:zero_transport_gloo>)
