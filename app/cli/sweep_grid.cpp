#include "app/cli/sweep_grid.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/config/options/option.h"
#include "app/config/toml_source.h"
#include "app/launch/ranks/launch_options.h"

namespace zero::cli {
namespace {

constexpr std::string_view kRanks = "ranks";
constexpr std::string_view kForm =
    "write --over zero.stage=0,3, or --over \"optimizer.betas=[[0.9, 0.95], [0.9, 0.999]]\"";

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

// Splits the text after "KEY=" into values.
std::vector<std::string> split(const std::string& text, const std::string& axis) {
  std::vector<std::string> values;
  if (text.starts_with('[')) {
    const Value parsed = parse_value(text);
    const auto* items = std::get_if<Value::Array>(&parsed.data);
    if (items == nullptr) throw ConfigError("--over", shown(axis), "not a list in brackets", std::string(kForm));
    for (const Value& item : *items) {
      const auto* word = std::get_if<std::string>(&item.data);
      values.push_back(word != nullptr ? *word : to_toml(item));
    }
    return values;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    values.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return values;
}

Axis axis_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw ConfigError("--over", shown(text), "not of the form KEY=VALUE,VALUE", std::string(kForm));
  Axis axis{.key = text.substr(0, equals), .values = split(text.substr(equals + 1), text)};
  if (axis.key != kRanks && find_option(axis.key) == nullptr) throw_unknown("--over", axis.key, "");
  if (axis.key == "run.dir")
    throw ConfigError("--over", shown(text), "each run has a folder of its own already", "name their place with --dir");
  if (axis.values.empty() || std::ranges::count(axis.values, "") > 0)
    throw ConfigError("--over", shown(text), "a value is missing", std::string(kForm));
  return axis;
}

std::string folder_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "none" : name.substr(0, 40);
}

void set(SweepPoint& point, const Axis& axis, const std::string& value) {
  if (axis.key == kRanks) {
    int ranks = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), ranks);
    if (error != std::errc() || end != value.data() + value.size() || ranks < 1 || ranks > kMostLocalRanks)
      throw ConfigError("--over", fmt::format("ranks={}", shown(value)), "not a number of ranks for one machine",
                        fmt::format("allowed: 1 to {}", kMostLocalRanks));
    point.ranks = ranks;
  } else {
    point.settings.emplace_back(axis.key, value);
  }
  const std::string key = axis.key.substr(axis.key.find('.') + 1);
  point.name += fmt::format("{}{}-{}", point.name.empty() ? "" : "_", key, folder_name(value));
  point.text += fmt::format("{}{}={}", point.text.empty() ? "" : " ", axis.key, value);
}

void make_names_unique(std::vector<SweepPoint>& points) {
  std::set<std::string> taken;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!taken.insert(points[i].name).second) {
      points[i].name += fmt::format("_{}", i + 1);
      taken.insert(points[i].name);
    }
  }
}

}  // namespace

SweepGrid::SweepGrid(std::span<const std::string> axes) : points_(1) {
  std::set<std::string> keys;
  for (const std::string& text : axes) {
    const Axis axis = axis_of(text);
    if (!keys.insert(axis.key).second)
      throw ConfigError("--over", shown(text), "this key has a --over already", "give all its values in one --over");
    std::vector<SweepPoint> longer;
    for (const SweepPoint& point : points_) {
      for (const std::string& value : axis.values) {
        longer.push_back(point);
        set(longer.back(), axis, value);
      }
    }
    points_ = std::move(longer);
    if (points_.size() > kMostRuns)
      throw ConfigError("--over", shown(text), fmt::format("{} runs", points_.size()),
                        fmt::format("a sweep has at most {}", kMostRuns));
  }
  make_names_unique(points_);
}

}  // namespace zero::cli
