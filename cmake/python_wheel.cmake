# The content of zerocpp's wheel: the component `python`, which scikit-build-core installs (pyproject.toml). With
# ZERO_WHEEL our files find each other and torch by $ORIGIN, and contain no folder of the build machine.
if(NOT ZERO_WHEEL)
  return()
endif()
set_target_properties(${installed_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../../torch/lib")
set_target_properties(zero_executable PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
set_target_properties(zero_python PROPERTIES INSTALL_RPATH "$ORIGIN/lib;$ORIGIN/../torch/lib")
install(TARGETS ${installed_libraries} LIBRARY DESTINATION zerocpp/lib COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS zero_executable RUNTIME DESTINATION zerocpp/bin COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS zero_python LIBRARY DESTINATION zerocpp COMPONENT python EXCLUDE_FROM_ALL)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/zerocpp" DESTINATION . COMPONENT python EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(FILES "${PROJECT_BINARY_DIR}/python/zerocpp/built_for.txt" DESTINATION zerocpp COMPONENT python
        EXCLUDE_FROM_ALL)
install(FILES "${PROJECT_SOURCE_DIR}/python/zerocpp_command.py" DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
