// LabelledTextDataset: labelled texts as rows of `context` tokens, each with a class.
//
//   LabelledTextDataset train(reviews, 0, 900, vocabulary, 64, "data.path");
//
// Rows are drawn without replacement. Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/row_dataset.h"
#include "app/data/texts/labelled_texts.h"
#include "app/data/tokens/vocabulary.h"

namespace zero {

class LabelledTextDataset : public RowDataset {
 public:
  // Encodes texts [begin, end).
  LabelledTextDataset(const LabelledTexts& texts, std::int64_t begin, std::int64_t end, const Vocabulary& vocabulary,
                      std::int64_t context, std::string_view key);

  SampleShape shape() const override;
  std::string show(std::int64_t sample, std::size_t columns) const override;
  std::string name_of(double target) const override;
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  void require_classes(std::int64_t classes, std::string_view key) const override;

 private:
  std::string path_;
  std::int64_t context_, vocab_, pad_;
  std::vector<std::int64_t> tokens_;  // tokens of all rows, row by row
  std::vector<std::int64_t> labels_, lines_;
  std::vector<std::string> texts_, classes_;
};

}  // namespace zero
