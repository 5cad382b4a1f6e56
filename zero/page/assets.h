// The page without its runs: what cmake/page_assets.cmake makes of the files in zero/page/assets, one constant a file.
#pragma once

#include <string_view>

namespace zero::page::assets {

extern const std::string_view kPageHtml;  // with marks where the rest goes: see report_page.cpp
extern const std::string_view kPageCss;
extern const std::string_view kScripts;  // all .js files, one after the other

}  // namespace zero::page::assets
