// RankTable: the figures of a run, rank by rank, from the "ranks" of metrics.jsonl (app/report/files/rank_figures.h).
//
//   RankTable table;
//   table.add(line["ranks"]);                 // of each line that has them, in order
//   table.columns()[0]                        // {"waits for others, a step", "seconds", {0.02, 0.31}}
//
// Seconds and bytes are means over the steps of the lines; ages are means over gradients. Input is untrusted: values of
// another form are left out, and so are ranks from kMostRanks on. Values only; Local.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace zero::page {

struct RankColumn {
  std::string label;
  std::string unit;            // "seconds", "bytes", or empty
  std::vector<double> values;  // by rank; NaN: no value
};

class RankTable {
 public:
  static constexpr std::size_t kMostRanks = 1024;

  void add(const nlohmann::json& ranks);
  // Returns the columns in a fixed order; none if no line had any.
  std::vector<RankColumn> columns() const;
  std::size_t num_ranks() const { return num_ranks_; }

 private:
  struct Cell {
    double sum = 0, weight = 0;  // of the mean; `sum` is weighted
    double total = 0, last = 0, most = 0;
    bool is_there = false;
  };
  void take(const std::string& key, const nlohmann::json& values, const nlohmann::json* weights, double weight);

  std::map<std::string, std::vector<Cell>> cells_;  // "sent_bytes.copies.int8": by rank
  std::size_t num_ranks_ = 0;
};

}  // namespace zero::page
