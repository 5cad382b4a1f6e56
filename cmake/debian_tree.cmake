# CPack runs this on its copy of the installed tree before it makes the Debian package (debian_package.cmake). It adds
# libtorch, the examples and Debian's own documents, and removes this machine's folders from the built files.
set(usr "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr")
set(libdir "${usr}/${CPACK_ZERO_LIBDIR}")
set(doc "${usr}/share/doc/zero-cpp")
find_program(STRIP strip REQUIRED)
find_program(GZIP gzip REQUIRED)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# ---- libtorch: libtorch_cpu.so, libc10.so, libraries that no distribution has, headers for find_package(zero) --------
set(copyright_of_torch)
if(CPACK_ZERO_TORCH)
  set(private "${libdir}/zero-cpp/torch")
  get_filename_component(wheel "${CPACK_ZERO_TORCH}/.." REALPATH)
  set(loaded "${CPACK_ZERO_TORCH}/lib/libtorch_cpu.so" "${CPACK_ZERO_TORCH}/lib/libc10.so")
  # CMake's own command takes minutes here.
  execute_process(COMMAND ldd ${loaded} OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
  if(needed MATCHES "not found")
    message(FATAL_ERROR "libtorch needs libraries that are not here:\n${needed}")
  endif()
  string(REGEX MATCHALL "=> /[^ ]+" needed "${needed}")
  list(TRANSFORM needed REPLACE "^=> " "")
  list(APPEND loaded ${needed})
  list(REMOVE_DUPLICATES loaded)
  foreach(library ${loaded})
    get_filename_component(folder "${library}" REALPATH)
    cmake_path(IS_PREFIX wheel "${folder}" of_torch)
    if(of_torch)
      file(COPY "${library}" DESTINATION "${private}/lib" FOLLOW_SYMLINK_CHAIN
           FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
      get_filename_component(name "${library}" NAME)
      run("${STRIP}" --strip-unneeded "${private}/lib/${name}")
      unset(rpath)  # READ_ELF keeps the old value if a file has none
      file(READ_ELF "${private}/lib/${name}" RPATH rpath)
      if(rpath)
        file(RPATH_SET FILE "${private}/lib/${name}" NEW_RPATH "$ORIGIN")
      endif()
    endif()
  endforeach()
  file(COPY "${CPACK_ZERO_TORCH}/include" DESTINATION "${private}" NO_SOURCE_PERMISSIONS)
  # Licences of all these files, word by word.
  file(GLOB licences "${wheel}/torch-*/licenses/*" "${wheel}/nvidia_cuda_*/licenses/*"
       "${CPACK_ZERO_TORCH}/LICENSE" "${CPACK_ZERO_TORCH}/NOTICE")
  foreach(licence ${licences})
    file(READ "${licence}" text)
    string(REPLACE "\r" "" text "\n${text}\n")
    string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
    foreach(once_more 1 2)  # an empty line is a dot in this format; one pass finds only one of two neighbours
      string(REPLACE "\n\n" "\n.\n" text "${text}")
    endforeach()
    string(REGEX REPLACE "\n([^\n])" "\n \\1" text "${text}")
    string(APPEND copyright_of_torch "${text}\n")
  endforeach()
  foreach(library zero zero_app)
    file(RPATH_SET FILE "${libdir}/lib${library}.so" NEW_RPATH "$ORIGIN:$ORIGIN/zero-cpp/torch/lib")
  endforeach()
  file(READ "${libdir}/cmake/zero/zeroConfig.cmake" config)
  string(REPLACE " \"${CPACK_ZERO_TORCH}\"" "" config "${config}")
  file(WRITE "${libdir}/cmake/zero/zeroConfig.cmake" "${config}")
endif()

# ---- built files ----------------------------------------------------------------------------------------------------
file(GLOB plugins "${libdir}/libzero_transport_*.so" "${libdir}/libzero_plan_*.so")
foreach(plugin ${plugins})
  unset(runpath)
  file(READ_ELF "${plugin}" RUNPATH runpath)
  if(runpath AND NOT runpath STREQUAL "$ORIGIN")
    file(RPATH_SET FILE "${plugin}" NEW_RPATH "$ORIGIN")
  endif()
endforeach()

# ---- required packages of the distribution; CPack reads the variable after this script ------------------------------
file(GLOB_RECURSE binaries RELATIVE "${CPACK_TEMPORARY_INSTALL_DIRECTORY}" "${usr}/bin/*" "${usr}/*.so" "${usr}/*.so.*")
list(TRANSFORM binaries PREPEND "./")
foreach(folder debian DEBIAN)  # dpkg-shlibdeps reads debian/control, and recognises a package's root by DEBIAN
  file(MAKE_DIRECTORY "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${folder}")
endforeach()
file(WRITE "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/debian/control" "")
execute_process(COMMAND dpkg-shlibdeps --ignore-missing-info -O ${binaries}
                WORKING_DIRECTORY "${CPACK_TEMPORARY_INSTALL_DIRECTORY}"
                OUTPUT_VARIABLE depends ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "^.*Depends=" "" CPACK_DEBIAN_PACKAGE_DEPENDS "${depends}")
file(REMOVE_RECURSE "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/debian" "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/DEBIAN")

# ---- examples: `zero train` names them from the folder above ---------------------------------------------------------
file(COPY "${CPACK_ZERO_SOURCE}/examples/README.md" DESTINATION "${usr}/share/zero-cpp/examples" NO_SOURCE_PERMISSIONS)
set(examples linear mnist_mlp mnist_cnn mnist_lstm shakespeare shakespeare_lstm shakespeare_llama bert_classification
    own_module gan api)
foreach(example ${examples})
  file(COPY "${CPACK_ZERO_SOURCE}/examples/${example}" DESTINATION "${usr}/share/zero-cpp/examples"
       NO_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
endforeach()
file(MAKE_DIRECTORY "${doc}")
file(CREATE_LINK ../../zero-cpp/examples "${doc}/examples" SYMBOLIC)

# ---- Debian's documents ----------------------------------------------------------------------------------------------
file(READ "${CPACK_ZERO_SOURCE}/cmake/debian/copyright" copyright)
if(copyright_of_torch)
  string(APPEND copyright "\nFiles: usr/${CPACK_ZERO_LIBDIR}/zero-cpp/torch/*\n"
         "Copyright: the PyTorch contributors and those named below\n"
         "License: PyTorch-and-CUDA\n${copyright_of_torch}")
endif()
file(WRITE "${doc}/copyright" "${copyright}")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE "${doc}/changelog" "zero-cpp (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
     "  * CHANGELOG.md.gz lists the changes.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
file(COPY "${CPACK_ZERO_SOURCE}/CHANGELOG.md" DESTINATION "${doc}" NO_SOURCE_PERMISSIONS)
run("${GZIP}" -9nf "${doc}/changelog" "${doc}/CHANGELOG.md")
file(MAKE_DIRECTORY "${usr}/share/lintian/overrides")
file(COPY_FILE "${CPACK_ZERO_SOURCE}/cmake/debian/lintian-overrides" "${usr}/share/lintian/overrides/zero-cpp")
if(EXISTS "${usr}/share/man/man1/zero.1")
  run("${GZIP}" -9nf "${usr}/share/man/man1/zero.1")
endif()
if(EXISTS "${usr}/share/zsh/site-functions")  # the folder that Debian's zsh searches
  file(RENAME "${usr}/share/zsh/site-functions" "${usr}/share/zsh/vendor-completions")
endif()
