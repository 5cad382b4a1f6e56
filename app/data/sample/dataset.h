// Dataset: the samples of a split (training or validation), which can be drawn by number.
//
//   std::vector<std::int64_t> samples = {data.draw(Order::kShuffled, seed, g), ...};
//   data.fill(samples, batch);
//
// A sample is identified by its position: its row, or the first token of its window. draw() returns the g-th sample of
// the run. pass_sample() enumerates a pass in order over all samples, for evaluation. fill() copies samples into a
// Batch.
//
// Immutable after construction: any number of threads may draw and fill. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "app/data/sample/batch.h"
#include "app/data/sample/sample_order.h"

namespace zero {

// The shape of samples, which the model must fit.
struct SampleShape {
  std::int64_t context = 0;            // tokens per sample; 0: samples are rows of numbers
  std::int64_t features = 0;           // numbers per row; 0: samples are tokens
  std::int64_t channels = 1;           // images: number of planes of pixels in a row
  std::int64_t height = 0, width = 0;  // images: pixels; 0: rows are not images
  std::int64_t classes = 0;            // the largest token or label, plus one (text: 256); 0: targets are real numbers
  std::int64_t vocab = 0;  // labelled texts: number of tokens; `classes` is then the number of label classes
  std::int64_t pad = 0;    // labelled texts: the token that fills short texts
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual SampleShape shape() const = 0;
  // Returns the number of tokens or rows in this split.
  virtual std::int64_t size() const = 0;

  virtual std::int64_t draw(Order order, std::uint64_t seed, std::int64_t g) const = 0;

  // A pass in order has every target once: all rows, or consecutive windows, the last padded with kIgnoredTarget.
  virtual std::int64_t pass_size() const = 0;
  virtual std::int64_t pass_sample(std::int64_t i) const = 0;

  // Copies samples into a batch. Returns the number of targets that count (that are not kIgnoredTarget).
  virtual std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const = 0;

  // Copies samples for training: numbers `first`, first + 1, ... of the run. Augmentation changes a sample by the seed
  // and its number in the run. So its changes differ between epochs, and do not depend on ranks or micro-batches.
  virtual std::int64_t fill_training(std::span<const std::int64_t> samples, std::uint64_t /*seed*/,
                                     std::int64_t /*first*/, Batch& batch) const {
    return fill(samples, batch);
  }

  // Returns the largest token and its first place: "token 150 of tokens.bin is 199". Empty if the tokens were not
  // checked.
  virtual std::string largest_token() const { return {}; }

  // Returns a sample as text: lines of at most `columns` characters (3 or more), without a line break after the last
  // line. Empty if samples of this kind cannot be shown, such as windows of tokens.
  virtual std::string show(std::int64_t /*sample*/, std::size_t /*columns*/) const { return {}; }
  // Returns the text of a target or of a prediction: the class's name if the data has names, else the number.
  virtual std::string name_of(double target) const { return fmt::format("{:.5g}", target); }

  // Returns the text of preprocessor_config.json, which says how inputs are made from images (image_dataset.h). Empty
  // if samples are not images.
  virtual std::string preprocessing() const { return {}; }

  // Throws ConfigError(key, classes) if a token or label is `classes` or more; the message names its place. `key` is
  // the option that sets the model's number of classes ("model.vocab").
  virtual void require_classes(std::int64_t classes, std::string_view key) const = 0;
};

}  // namespace zero
