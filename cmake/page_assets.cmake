# The files of app/report/page/assets as constants of C++ (app/report/page/assets.h), so `zero report` needs no file
# beside it. A change in one of the files configures the build again.
function(zero_page_assets target)
  set(folder "${PROJECT_SOURCE_DIR}/app/report/page/assets")
  file(GLOB scripts CONFIGURE_DEPENDS "${folder}/*.js")
  list(SORT scripts)
  set(script_texts "")
  foreach(script ${scripts})
    file(READ "${script}" text)
    string(APPEND script_texts "${text}\n")
  endforeach()
  file(READ "${folder}/page.html" html)
  file(READ "${folder}/page.css" css)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts} "${folder}/page.html" "${folder}/page.css")
  set(file "${PROJECT_BINARY_DIR}/page_assets.cpp")
  string(CONCAT source
    "#include \"app/report/page/assets.h\"\nnamespace zero::page::assets {\n"
    "const std::string_view kPageHtml = R\"zero(${html})zero\";\n"
    "const std::string_view kPageCss = R\"zero(${css})zero\";\n"
    "const std::string_view kScripts = R\"zero(${script_texts})zero\";\n"
    "}  // namespace zero::page::assets\n")
  # Like file(WRITE), but an unchanged file keeps its time.
  set(before "")
  if(EXISTS "${file}")
    file(READ "${file}" before)
  endif()
  if(NOT before STREQUAL source)
    file(WRITE "${file}" "${source}")
  endif()
  target_sources(${target} PRIVATE "${file}")
endfunction()
