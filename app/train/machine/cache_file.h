// read_cache(), keep_in_cache(): a JSON object in a file of the user's cache folder, with an entry for each key.
//
//   const auto entries = read_cache(path);                    // {} if the file is missing or unreadable
//   keep_in_cache(path, "this machine", {{"disk_read", 3e9}}, "the probed rates");
//
// Local.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace zero {

nlohmann::ordered_json read_cache(const std::filesystem::path& path);

// Writes one entry. If the file cannot be written, it only warns: "WHAT cannot be kept for the next run".
void keep_in_cache(const std::filesystem::path& path, const std::string& key, nlohmann::ordered_json entry,
                   std::string_view what);

}  // namespace zero
