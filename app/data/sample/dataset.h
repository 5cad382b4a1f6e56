// Samples that can be drawn by number: one split (training or validation) of some data.
//
// A sample is named by a position: the first token of a window, or a row. draw() says which one the g-th of the run is,
// pass_sample() enumerates one ordered pass over everything (evaluation), fill() copies samples into a Batch.
//
//   std::vector<std::int64_t> samples = {data.draw(Order::kShuffled, seed, g), ...};
//   data.fill(samples, batch);
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

// What a model must agree with.
struct SampleShape {
  std::int64_t context = 0;            // tokens per sample; 0: rows
  std::int64_t features = 0;           // numbers per row; 0: tokens
  std::int64_t channels = 1;           // of images: a row is a plane of pixels for each
  std::int64_t height = 0, width = 0;  // of images, pixels; 0: rows that are no images
  std::int64_t classes = 0;  // the largest token or label seen, plus one (text: 256); 0: targets are real numbers
  std::int64_t vocab = 0;    // of labelled texts: how many tokens there are; `classes` is of the labels then
  std::int64_t pad = 0;      // of labelled texts: the token that fills short ones
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual SampleShape shape() const = 0;
  // Tokens or rows in this split.
  virtual std::int64_t size() const = 0;

  virtual std::int64_t draw(Order order, std::uint64_t seed, std::int64_t g) const = 0;

  // One pass in order touches every target once: windows that follow each other (the last one padded with
  // kIgnoredTarget), or all rows.
  virtual std::int64_t pass_size() const = 0;
  virtual std::int64_t pass_sample(std::int64_t i) const = 0;

  // Returns how many targets count (those not kIgnoredTarget).
  virtual std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const = 0;

  // The same for training: samples `first`, first + 1, ... of the run, which its seed changes where the data is augmented. A
  // sample's change depends on the seed and its number in the run, so that no two epochs have the same one, and neither
  // ranks nor micro-batches matter.
  virtual std::int64_t fill_training(std::span<const std::int64_t> samples, std::uint64_t /*seed*/,
                                     std::int64_t /*first*/, Batch& batch) const {
    return fill(samples, batch);
  }

  // "token 150 of tokens.bin is 199": the largest token, and the first place where it stands. "": nobody looked at each.
  virtual std::string largest_token() const { return {}; }

  // A sample as people see it: lines of at most `columns` characters, 3 or more, without a line break behind the last.
  // "": it is not shown, as windows of tokens are not.
  virtual std::string show(std::int64_t /*sample*/, std::size_t /*columns*/) const { return {}; }
  // A target, or a prediction of one, in words: the name of a class where the data has names, else the number.
  virtual std::string name_of(double target) const { return fmt::format("{:.5g}", target); }

  // How inputs are made of images, as the text of preprocessor_config.json (image_dataset.h). "": they are no images.
  virtual std::string preprocessing() const { return {}; }

  // ConfigError(key, classes) that names the first token or label of `classes` or more, and where it stands. `key` is
  // the option that says how many the model has ("model.vocab").
  virtual void require_classes(std::int64_t classes, std::string_view key) const = 0;
};

}  // namespace zero
