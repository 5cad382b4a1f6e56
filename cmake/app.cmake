# The program: the command `zero`, and libzero_app.so with its verbs that need torch.
#
# The command is linked without torch, so it starts in milliseconds and may fork. It opens libzero_app.so if a verb
# trains, plans or generates (app/cli/command/torch_entry.h). Both consist of rooms of app/; the library never includes
# them. Its target is zero_executable, because the library's target is `zero`.
zero_room(data FOLDER app/data LIBS ZLIB::ZLIB PkgConfig::pcre2 PkgConfig::utf8proc PkgConfig::png PkgConfig::turbojpeg)
zero_room(report FOLDER app/report EXCLUDE page COLD LIBS nlohmann_json::nlohmann_json)
zero_room(page FOLDER app/report/page COLD LIBS nlohmann_json::nlohmann_json)
include(page_assets)
zero_page_assets(zero_page)
zero_room(launch FOLDER app/launch COLD)
zero_room(config FOLDER app/config COLD)
zero_room(bench FOLDER app/cli/bench LIBS nlohmann_json::nlohmann_json PkgConfig::liburing)
zero_room(cli FOLDER app/cli EXCLUDE bench torch_verbs COLD
          LIBS CLI11::CLI11 nlohmann_json::nlohmann_json PkgConfig::liburing dl)
set(program_rooms data report page launch config bench cli)
set(program_libraries PkgConfig::liburing PkgConfig::pcre2 PkgConfig::utf8proc PkgConfig::png PkgConfig::turbojpeg
    ZLIB::ZLIB dl)

add_executable(zero_executable "${PROJECT_SOURCE_DIR}/app/cli/main.cpp" $<TARGET_OBJECTS:zero_build_name_own>)
foreach(room ${program_rooms})
  target_sources(zero_executable PRIVATE $<TARGET_OBJECTS:zero_${room}>)
endforeach()
target_link_libraries(zero_executable PRIVATE zero_core zero_flags ${program_libraries})
set_target_properties(zero_executable PROPERTIES OUTPUT_NAME zero BUILD_RPATH "$ORIGIN/../lib"
                                  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS zero_executable RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

if(ZERO_WITH_TORCH)
  zero_room(models FOLDER app/models TORCH)
  zero_room(train FOLDER app/train TORCH LIBS nlohmann_json::nlohmann_json)
  zero_room(torch_verbs FOLDER app/cli/torch_verbs TORCH LIBS nlohmann_json::nlohmann_json)
  add_library(zero_app SHARED $<TARGET_OBJECTS:zero_build_name_own>)
  foreach(room data report config models train torch_verbs)
    target_sources(zero_app PRIVATE $<TARGET_OBJECTS:zero_${room}>)
  endforeach()
  target_link_libraries(zero_app PUBLIC zero zero_core zero_libtorch PRIVATE ${program_libraries})
  add_dependencies(zero_executable zero_app)  # opened at run time, not linked
endif()
