// parse_strictly(): parses JSON from outside strictly: no duplicate keys, nothing after the value, and limits.
//
//   const nlohmann::json json = parse_strictly(text, path);
//   at(json, "files", path)              // throws if it is missing
//
// The limits on depth and number of values apply before any value is stored. Throws IoError (error_number() 0) with the
// path. Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace zero {

nlohmann::json parse_strictly(std::string_view text, std::string_view path);

[[noreturn]] void refuse_json(std::string_view path, std::string_view reason);
// Requires an object with exactly these keys.
void require_keys(const nlohmann::json& json, std::initializer_list<const char*> keys, std::string_view path);
// Returns a whole number from 0 to 2^62.
std::int64_t natural(const nlohmann::json& json, std::string_view what, std::string_view path);
std::string text_of(const nlohmann::json& json, std::string_view what, std::string_view path);
const nlohmann::json& array_of(const nlohmann::json& json, std::string_view what, std::string_view path);

}  // namespace zero
