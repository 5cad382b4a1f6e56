#include "app/train/run/shown_predictions.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "zero/base/text/terminal_text.h"

namespace zero {
namespace {

constexpr std::size_t kFewestColumns = 16;  // fewest columns of a sample
constexpr std::size_t kGap = 2;             // columns before each sample

struct ShownPrediction {
  std::string predicted, target, sample;
};

std::string cell(std::string_view text, std::size_t columns) {
  return std::string(kGap, ' ').append(text).append(columns - terminal_columns(text), ' ');
}

// Appends the sample's lines, with `before` in front of the first line.
void append_sample(std::string& lines, const std::string& before, std::string_view sample) {
  const std::string space(terminal_columns(before), ' ');
  for (std::size_t begin = 0, end = 0; end != sample.npos; begin = end + 1) {
    end = sample.find('\n', begin);
    std::string line = (begin == 0 ? before : space) + std::string(sample.substr(begin, end - begin));
    line.erase(line.find_last_not_of(' ') + 1);
    lines += line + '\n';
  }
}

}  // namespace

std::string shown_predictions(std::span<const PredictedSample> samples, const Dataset& data, std::size_t columns) {
  std::vector<ShownPrediction> all;
  std::size_t predicted = 0, target = 0;
  for (const PredictedSample& sample : samples) {
    all.push_back({data.name_of(sample.predicted), data.name_of(sample.target), {}});
    predicted = std::max(predicted, terminal_columns(all.back().predicted));
    target = std::max(target, terminal_columns(all.back().target));
  }
  const std::size_t names = predicted + target + 3 * kGap;
  const std::size_t room = std::max(columns, names + kFewestColumns) - names;
  bool several_lines = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].sample = data.show(samples[i].sample, room);
    several_lines = several_lines || all[i].sample.find('\n') != std::string::npos;
  }
  std::string lines;
  for (const ShownPrediction& one : all) {
    if (several_lines && !lines.empty()) lines += '\n';
    append_sample(lines, cell(one.predicted, predicted) + cell(one.target, target) + cell("", 0), one.sample);
  }
  if (!lines.empty()) lines.pop_back();
  return lines;
}

}  // namespace zero
