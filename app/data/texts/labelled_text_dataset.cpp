#include "app/data/texts/labelled_text_dataset.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/text/terminal_text.h"

#include "app/data/sample/shown_sample.h"

namespace zero {

LabelledTextDataset::LabelledTextDataset(const LabelledTexts& texts, std::int64_t begin, std::int64_t end,
                                         const Vocabulary& vocabulary, std::int64_t context, std::string_view key)
    : RowDataset(end - begin, key, texts.path),
      path_(texts.path),
      context_(context),
      vocab_(vocabulary.size()),
      pad_(vocabulary.pad()),
      classes_(texts.classes) {
  ZERO_CHECK(0 <= begin && end <= texts.size(), "texts [{}, {}) of {}", begin, end, texts.size());
  if (context < 2)
    throw ConfigError("data.context", fmt::format("{}", context), "leaves no room for a word after [CLS]",
                      "use 2 or more");
  tokens_.reserve(static_cast<std::size_t>((end - begin) * context));
  for (std::int64_t i = begin; i < end; ++i) {
    const auto numbers = vocabulary.encode(texts.texts[static_cast<std::size_t>(i)], context);
    tokens_.insert(tokens_.end(), numbers.begin(), numbers.end());
  }
  labels_.assign(texts.labels.begin() + begin, texts.labels.begin() + end);
  lines_.assign(texts.lines.begin() + begin, texts.lines.begin() + end);
  texts_.assign(texts.texts.begin() + begin, texts.texts.begin() + end);
}

SampleShape LabelledTextDataset::shape() const {
  return {.context = context_, .classes = *std::ranges::max_element(labels_) + 1, .vocab = vocab_, .pad = pad_};
}

std::string LabelledTextDataset::show(std::int64_t sample, std::size_t columns) const {
  ZERO_CHECK(sample >= 0 && sample < size(), "text {} of {}", sample, size());
  return terminal_text(texts_[static_cast<std::size_t>(sample)], columns);
}

std::string LabelledTextDataset::name_of(double target) const {
  return shown_class(classes_, static_cast<std::int64_t>(target));
}

std::int64_t LabelledTextDataset::fill(std::span<const std::int64_t> samples, Batch& batch) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  auto& input = batch.input.reset<std::int64_t>({rows, context_});
  auto& target = batch.target.reset<std::int64_t>({rows});
  auto out = input.begin();
  for (std::size_t row = 0; row < samples.size(); ++row) {
    ZERO_CHECK(samples[row] >= 0 && samples[row] < size(), "text {} of {}", samples[row], size());
    out = std::copy_n(tokens_.begin() + samples[row] * context_, context_, out);
    target[row] = labels_[static_cast<std::size_t>(samples[row])];
  }
  return rows;
}

void LabelledTextDataset::require_classes(std::int64_t classes, std::string_view key) const {
  const auto found = std::ranges::find_if(labels_, [&](std::int64_t label) { return label >= classes; });
  if (found == labels_.end()) return;
  throw ConfigError(key, fmt::format("{}", classes),
                    fmt::format("too few classes: {}:{} has the label {}", path_,
                                lines_[static_cast<std::size_t>(found - labels_.begin())], *found),
                    fmt::format("The data needs at least {}.", shape().classes));
}

}  // namespace zero
