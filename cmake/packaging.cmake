# cmake --install build/release --prefix P installs the command, the libraries, their plug-ins, the headers, and the
# files for find_package(zero). That gives other projects zero::zero (everything) and zero::core (without torch). The
# Debian package uses the same rules (debian_package.cmake).
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/zero")
set(installed_libraries zero_core)
foreach(target zero zero_app zero_plan_clp zero_transport_mpi zero_transport_gloo zero_transport_nccl zero_device_cuda)
  if(TARGET ${target})
    list(APPEND installed_libraries ${target})
  endif()
endforeach()
install(TARGETS ${installed_libraries} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
# libtorch's folder comes from its link options.
set_target_properties(${installed_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")
if(TARGET zero)  # the Debian package installs a libtorch beside the library
  set_target_properties(zero zero_app PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/zero-cpp/torch/lib")
endif()
if(TARGET zero_executable)
  set_target_properties(zero_executable PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()

# The command prints its own manual page and completion. A command for another processor cannot run here, and has none.
if(TARGET zero_executable)
  install(CODE "
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\")
    foreach(page \"man|man/man1/zero.1\" \"completion;bash|bash-completion/completions/zero\"
                 \"completion;zsh|zsh/site-functions/_zero\" \"completion;fish|fish/vendor_completions.d/zero.fish\")
      string(REPLACE \"|\" \";\" page \"\${page}\")
      list(POP_BACK page file)
      get_filename_component(folder \"\${share}/\${file}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"$<TARGET_FILE:zero_executable>\" \${page}
                      OUTPUT_FILE \"\${share}/\${file}\" RESULT_VARIABLE status)
      if(NOT status EQUAL 0)
        file(REMOVE \"\${share}/\${file}\")
      endif()
    endforeach()")
endif()

# The library's headers: those that users may include, and all headers that these include.
set(public_rooms ${core_rooms})
if(TARGET zero)
  list(APPEND public_rooms torch)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/zero" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          FILES_MATCHING PATTERN "*.h")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/torch.cmake" DESTINATION "${package_dir}")
endif()
foreach(room ${public_rooms})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/zero/${room}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/zero"
          FILES_MATCHING PATTERN "*.h" PATTERN "*-inl.h" EXCLUDE)
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/zeroConfig.cmake.in" "${PROJECT_BINARY_DIR}/zeroConfig.cmake"
  INSTALL_DESTINATION "${package_dir}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/zeroConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/zeroConfig.cmake" "${PROJECT_BINARY_DIR}/zeroConfigVersion.cmake"
        DESTINATION "${package_dir}")

# Over 20 s: installs this build into a folder of its own, and builds examples/own_module and examples/gan against it.
if(ZERO_TESTS AND TARGET zero AND TARGET zero_executable)
  add_test(NAME package COMMAND "${CMAKE_COMMAND}" "-DBUILD=${PROJECT_BINARY_DIR}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
           "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DCCACHE=${CCACHE}" -P "${PROJECT_SOURCE_DIR}/cmake/check_package.cmake")
  set_tests_properties(package PROPERTIES LABELS slow COST 60 TIMEOUT 900)
endif()
include(debian_package)
