#include "app/report/page/rank_table.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace zero::page {
namespace {

using Json = nlohmann::json;

enum class Shown { kMean, kTotal, kLast, kMost };

struct Kind {
  std::string_view key, label, unit;
  Shown shown;
};

constexpr Kind kKinds[] = {
    {"wait_seconds", "waits for others, a step", "seconds", Shown::kMean},
    {"samples", "samples of a micro-batch, last", "", Shown::kLast},
    {"gradients", "gradients applied", "", Shown::kTotal},
    {"age", "their age, mean", "", Shown::kMean},
    {"most_age", "their age, most", "", Shown::kMost},
    {"dropped", "gradients dropped", "", Shown::kTotal},
};

constexpr Kind kReceivers[] = {
    {"group", "sent a step in its group", "bytes", Shown::kMean},
    {"copies", "sent a step to other copies", "bytes", Shown::kMean},
    {"served", "sent a step between servers and workers", "bytes", Shown::kMean},
};
constexpr std::string_view kCodecs[] = {"none", "int8", "int4", "topk"};

const Json* part_of(const Json& json, std::string_view key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? &*found : nullptr;
}

double number_at(const Json& values, std::size_t rank) {
  if (!values.is_array() || rank >= values.size() || !values[rank].is_number()) return std::nan("");
  return values[rank].get<double>();
}

}  // namespace

void RankTable::take(const std::string& key, const Json& values, const Json* weights, double weight) {
  if (!values.is_array()) return;
  std::vector<Cell>& cells = cells_[key];
  const std::size_t size = std::min(values.size(), kMostRanks);
  num_ranks_ = std::max(num_ranks_, size);
  if (cells.size() < size) cells.resize(size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    const double value = number_at(values, rank), own = weights == nullptr ? weight : number_at(*weights, rank);
    if (!std::isfinite(value) || !(own > 0)) continue;
    Cell& cell = cells[rank];
    cell.sum += value * own;
    cell.weight += own;
    cell.total += value;
    cell.last = value;
    cell.most = std::max(cell.most, value);
    cell.is_there = true;
  }
}

void RankTable::add(const Json& ranks) {
  const Json* const steps = part_of(ranks, "steps");
  if (steps == nullptr || !steps->is_number()) return;
  const double weight = steps->get<double>();
  const Json* const gradients = part_of(ranks, "gradients");
  for (const Kind& kind : kKinds)
    if (const Json* values = part_of(ranks, kind.key))
      take(std::string(kind.key), *values, kind.key == "age" ? gradients : nullptr, weight);
  const Json* const sent = part_of(ranks, "sent_bytes");
  for (const Kind& receiver : kReceivers) {
    const Json* const bytes = sent == nullptr ? nullptr : part_of(*sent, receiver.key);
    for (const std::string_view codec : kCodecs)
      if (const Json* values = bytes == nullptr ? nullptr : part_of(*bytes, codec))
        take(fmt::format("{}.{}", receiver.key, codec), *values, nullptr, weight);
  }
}

std::vector<RankColumn> RankTable::columns() const {
  std::vector<RankColumn> columns;
  const auto add = [&](const std::string& key, const Kind& kind, std::string_view codec) {
    const auto found = cells_.find(key);
    if (found == cells_.end()) return;
    RankColumn column{fmt::format("{}{}{}", kind.label, codec.empty() ? "" : ", ", codec), std::string(kind.unit),
                      std::vector<double>(num_ranks_, std::nan(""))};
    for (std::size_t rank = 0; rank < found->second.size(); ++rank) {
      const Cell& cell = found->second[rank];
      if (!cell.is_there) continue;
      column.values[rank] = kind.shown == Shown::kMean    ? cell.sum / cell.weight
                            : kind.shown == Shown::kTotal ? cell.total
                            : kind.shown == Shown::kLast  ? cell.last
                                                          : cell.most;
    }
    columns.push_back(std::move(column));
  };
  for (const Kind& kind : kKinds) add(std::string(kind.key), kind, "");
  for (const Kind& receiver : kReceivers)
    for (const std::string_view codec : kCodecs)
      add(fmt::format("{}.{}", receiver.key, codec), receiver, codec == "none" ? "" : codec);
  return columns;
}

}  // namespace zero::page
