#include "zero/base/files/strict_json.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
constexpr int kMaxDepth = 8;
constexpr std::int64_t kMaxValues = 20'000'000;

}  // namespace

void refuse_json(std::string_view path, std::string_view reason) {
  throw IoError(path, "verify", 0, reason);
}

Json parse_strictly(std::string_view text, std::string_view path) {
  if (text.size() > kMaxBytes) refuse_json(path, fmt::format("has more than {} bytes", kMaxBytes));
  // nlohmann treats a zero byte as the end of the input, and would ignore the rest.
  if (text.find('\0') != text.npos) refuse_json(path, "holds a zero byte");
  std::vector<std::set<std::string, std::less<>>> keys;
  std::int64_t values = 0;
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxDepth) refuse_json(path, fmt::format("is nested more than {} deep", kMaxDepth));
    if (++values > kMaxValues) refuse_json(path, fmt::format("holds more than {} values", kMaxValues));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      refuse_json(path, fmt::format("the key \"{:.64}\" occurs twice", value.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), look);
  } catch (const Json::exception& error) {
    refuse_json(path, fmt::format("is not JSON: {:.160}", error.what()));
  }
}

void require_keys(const Json& json, std::initializer_list<const char*> keys, std::string_view path) {
  if (!json.is_object()) refuse_json(path, "has another value in place of an object");
  for (const char* const key : keys)
    if (!json.contains(key)) refuse_json(path, fmt::format("has no \"{}\"", key));
  for (const auto& item : json.items())
    if (std::ranges::none_of(keys, [&](const char* key) { return item.key() == key; }))
      refuse_json(path, fmt::format("has an unknown \"{:.64}\"", item.key()));
}

std::int64_t natural(const Json& json, std::string_view what, std::string_view path) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > (std::uint64_t{1} << 62))
    refuse_json(path, fmt::format("{} is not a whole number from 0 to 2^62", what));
  return json.get<std::int64_t>();
}

std::string text_of(const Json& json, std::string_view what, std::string_view path) {
  if (!json.is_string()) refuse_json(path, fmt::format("{} is not a text", what));
  return json.get<std::string>();
}

const Json& array_of(const Json& json, std::string_view what, std::string_view path) {
  if (!json.is_array()) refuse_json(path, fmt::format("{} is not a list", what));
  return json;
}

}  // namespace zero
