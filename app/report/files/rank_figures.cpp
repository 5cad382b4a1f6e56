#include "app/report/files/rank_figures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "zero/base/error/check.h"

namespace zero {
namespace {

using Value = std::function<double(const RankFigures&)>;  // NaN: no figure

// Writes few digits, because a run may have many ranks and many such lines.
std::string array_of(std::span<const RankFigures> ranks, const Value& value) {
  std::string json;
  for (const RankFigures& rank : ranks) {
    const double number = value(rank);
    json += json.empty() ? "[" : ", ";
    json += !std::isfinite(number)                                    ? "null"
            : std::abs(number) < 1e15 && number == std::floor(number) ? fmt::format("{:.0f}", number)
                                                                      : fmt::format("{:.4g}", number);
  }
  return json + ']';
}

bool somewhere(std::span<const RankFigures> ranks, const Value& value) {
  return std::ranges::any_of(ranks, [&](const RankFigures& rank) { return value(rank) > 0; });
}

double in_a_step(double sum, const RankFigures& rank) {
  return rank.steps > 0 ? sum / rank.steps : std::nan("");
}

// {"none": [...], "int8": [...]}; empty if nothing was sent.
std::string sent_json(std::span<const RankFigures> ranks, RankFigures::BytesByCodec RankFigures::*sent) {
  std::string json;
  for (std::size_t codec = 0; codec < kSentCodecs.size(); ++codec) {
    const auto bytes = [&](const RankFigures& rank) { return std::round(in_a_step((rank.*sent)[codec], rank)); };
    if (!somewhere(ranks, bytes)) continue;
    json += fmt::format(R"({}"{}": {})", json.empty() ? "{" : ", ", kSentCodecs[codec], array_of(ranks, bytes));
  }
  return json.empty() ? "" : json + '}';
}

std::string all_sent_json(std::span<const RankFigures> ranks) {
  std::string json;
  const auto add = [&](const char* to, const std::string& bytes) {
    if (!bytes.empty()) json += fmt::format(R"({}"{}": {})", json.empty() ? "{" : ", ", to, bytes);
  };
  add("group", sent_json(ranks, &RankFigures::sent_in_group));
  add("copies", sent_json(ranks, &RankFigures::sent_to_copies));
  const auto served = [](const RankFigures& rank) { return std::round(in_a_step(rank.sent_served, rank)); };
  if (somewhere(ranks, served)) add("served", fmt::format(R"({{"none": {}}})", array_of(ranks, served)));
  return json.empty() ? "" : json + '}';
}

}  // namespace

RankFigures& RankFigures::operator+=(const RankFigures& later) {
  steps += later.steps;
  waited_seconds += later.waited_seconds;
  samples = later.samples;
  for (std::size_t codec = 0; codec < kSentCodecs.size(); ++codec) {
    sent_in_group[codec] += later.sent_in_group[codec];
    sent_to_copies[codec] += later.sent_to_copies[codec];
  }
  sent_served += later.sent_served;
  gradients += later.gradients;
  dropped += later.dropped;
  sum_of_ages += later.sum_of_ages;
  most_age = std::max(most_age, later.most_age);
  return *this;
}

void RankFigures::add(const SentByCodec& sent) {
  for (std::size_t codec = 0; codec < kSentCodecs.size(); ++codec) {
    sent_in_group[codec] += static_cast<double>(sent.group[codec]);
    sent_to_copies[codec] += static_cast<double>(sent.copies[codec]);
  }
}

std::array<double, kNumRankFigures> to_values(const RankFigures& figures) {
  return std::bit_cast<std::array<double, kNumRankFigures>>(figures);
}

RankFigures rank_figures(std::span<const double> values) {
  ZERO_CHECK(values.size() == kNumRankFigures, "{} figures of a rank", values.size());
  std::array<double, kNumRankFigures> all{};
  std::ranges::copy(values, all.begin());
  return std::bit_cast<RankFigures>(all);
}

std::string ranks_json(std::span<const RankFigures> ranks) {
  std::string json = fmt::format(R"({{"steps": {:.0f})", ranks.empty() ? 0 : ranks.front().steps);
  const auto add = [&](const char* key, const Value& value) {
    json += fmt::format(R"(, "{}": {})", key, array_of(ranks, value));
  };
  const auto add_if_any = [&](const char* key, const Value& value) {
    if (somewhere(ranks, value)) add(key, value);
  };
  add("wait_seconds", [](const RankFigures& rank) { return in_a_step(rank.waited_seconds, rank); });
  add_if_any("samples", [](const RankFigures& rank) { return rank.samples; });
  const auto gradients = [](const RankFigures& rank) { return rank.gradients; };
  if (somewhere(ranks, gradients)) {
    const auto of_gradients = [](const RankFigures& rank, double value) {
      return rank.gradients > 0 ? value : std::nan("");
    };
    add("gradients", gradients);
    add("age", [&](const RankFigures& rank) { return of_gradients(rank, rank.sum_of_ages / rank.gradients); });
    add("most_age", [&](const RankFigures& rank) { return of_gradients(rank, rank.most_age); });
  }
  add_if_any("dropped", [](const RankFigures& rank) { return rank.dropped; });
  if (const std::string sent = all_sent_json(ranks); !sent.empty()) json += fmt::format(R"(, "sent_bytes": {})", sent);
  return json + '}';
}

}  // namespace zero
