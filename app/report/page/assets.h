// kPageHtml, kPageCss, kScripts: the page without its runs.
//
// cmake/page_assets.cmake makes these from the files in app/report/page/assets.
#pragma once

#include <string_view>

namespace zero::page::assets {

extern const std::string_view kPageHtml;  // with marks for the rest: see report_page.cpp
extern const std::string_view kPageCss;
extern const std::string_view kScripts;  // all .js files, concatenated

}  // namespace zero::page::assets
