# cpack -G DEB, which tools/packaging/package_deb.sh calls, makes zero-cpp_VERSION_ARCHITECTURE.deb from the tree of
# `cmake --install`, libtorch, and the examples. debian_tree.cmake changes CPack's copy of the tree for Debian.
# docs/decisions/0023-debian-package-contains-libtorch.md says why libtorch is inside.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME zero-cpp)
set(CPACK_PACKAGE_CONTACT "zero.cpp maintainers <maintainers@users.noreply.a-seed-3c6d966e.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train models whose states do not fit one device")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "ZeRO splits parameters, gradients and optimizer state over the ranks
of a run, and can put any part of them on the host or on disk. This package has
the command zero, the C++ libraries with headers and a CMake package, the
transports that were built, examples, and the parts of libtorch that they need.
It runs on CPUs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/debian_tree.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)  # see debian_tree.cmake; CPack would first open 9,700 files, for minutes
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, g++, libfmt-dev, openmpi-bin")  # for users' own programs, and to start MPI
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/cmake/debian/triggers")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)  # half a gigabyte in seconds; dpkg of Debian 12 and Ubuntu 24.04 can read it
set(CPACK_THREADS 0)

set(CPACK_ZERO_SOURCE "${PROJECT_SOURCE_DIR}")
set(CPACK_ZERO_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
set(CPACK_ZERO_TORCH "")
if(TARGET zero)
  set(CPACK_ZERO_TORCH "${ZERO_TORCH}")
endif()
include(CPack)
