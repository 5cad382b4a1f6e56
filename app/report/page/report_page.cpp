#include "app/report/page/report_page.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/check.h"

#include "app/report/page/assets.h"
#include "app/report/page/page_json.h"

namespace zero::page {
namespace {

std::string title_of(std::span<const RecordedRun> runs) {
  std::vector<std::string> names;
  for (const RecordedRun& run : runs) names.push_back(run.name);
  return fmt::format("{} - zero.cpp", fmt::join(names, ", "));
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string json_for_script(const nlohmann::ordered_json& json) {
  std::string out;
  // A `<` occurs only inside strings. Bytes that are not UTF-8 are replaced.
  for (const char c : json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string report_page(std::span<const RecordedRun> runs, std::string_view made) {
  const std::array<std::pair<std::string_view, std::string>, 4> parts{
      {{"@TITLE@", html_text(title_of(runs))},
       {"@STYLE@", std::string(assets::kPageCss)},
       {"@RUNS@", json_for_script(page_json(runs, made))},
       {"@SCRIPT@", std::string(assets::kScripts)}}};
  // Searches for the marks of the page only, so a mark in a run's name remains text.
  std::string html;
  std::string_view rest = assets::kPageHtml;
  for (const auto& [mark, text] : parts) {
    const auto at = rest.find(mark);
    ZERO_CHECK(at != rest.npos, "page.html has no {}", mark);
    html += rest.substr(0, at);
    html += text;
    rest.remove_prefix(at + mark.size());
  }
  return html.append(rest);
}

}  // namespace zero::page
