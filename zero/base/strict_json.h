// JSON from outside, read strictly: no key twice, nothing after the value, and limits on depth and number of values
// that hold before any value is kept.
//
//   const nlohmann::json json = parse_strictly(text, path);
//   at(json, "files", path)              // throws where it is missing
//
// Throws IoError (error_number() 0) with the path. Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace zero {

nlohmann::json parse_strictly(std::string_view text, std::string_view path);

[[noreturn]] void refuse_json(std::string_view path, std::string_view reason);
// An object with these keys and no others.
void require_keys(const nlohmann::json& json, std::initializer_list<const char*> keys, std::string_view path);
// A whole number, 0 to 2^62.
std::int64_t natural(const nlohmann::json& json, std::string_view what, std::string_view path);
std::string text_of(const nlohmann::json& json, std::string_view what, std::string_view path);
const nlohmann::json& array_of(const nlohmann::json& json, std::string_view what, std::string_view path);

}  // namespace zero
