// open_data(): from the [data] section of a configuration to a training and a validation split.
//
//   Corpus corpus = open_data({.kind = DataKind::kText, .path = "input.txt", .validation = 0.1, .context = 64});
//   corpus.shape().classes                          // 256
//   corpus.require_classes(vocab, "model.vocab");    // for a model that is given
//
// Labels of samples are checked as app/data/sample/class_range.h says; those of a folder of pictures are its folders, two or more.
//
// No file is in both splits: a path of its own that names a file of data.path is refused. (One folder may hold MNIST's two
// sets, as mnist.h says.)
//
// Text and tokens may lie in several files (token_shards.h), which are one stream; other kinds read one file or folder.
//
// A fraction is held out from the end, or from the end of each class, as held_out.h says: images by class, files with labels by
// class unless their end is fair. Every way in which the files can be wrong is a ConfigError under "data.path",
// "data.validation", "data.vocab", "data.tokenizer", "data.classes", "data.labels", "data.columns", "data.text_column",
// "data.label_column", "data.augment" or "data.context". Local: each rank reads the files itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zero/base/files/data_files.h"

#include "app/data/images/fitted_picture.h"
#include "app/data/images/image_dataset.h"
#include "app/data/sample/dataset.h"

namespace zero {

// kImages: a folder of pictures (image_folder.h). kWordOrder: the task that word_order_texts() makes of a text (labelled_texts.h).
enum class DataKind { kText, kTokens, kMnist, kImages, kCsv, kTsv, kWordOrder };

struct DataOptions {
  DataKind kind = DataKind::kText;
  DataFiles path;
  std::variant<double, DataFiles> validation = 0.1;  // a fraction in [0, 1), or other files; 0: none
  std::int64_t context = 0;                          // tokens per sample; kinds of numbers ignore it
  std::int64_t words = 4000;    // of labelled texts: numbers in the vocabulary that the training texts teach
  std::filesystem::path vocab;  // of labelled texts: a WordPiece vocabulary instead; empty: none
  std::optional<bool>
      lower_case;  // with vocab: are texts lower-cased? Nothing: as the vocabulary has it (vocabulary.h)
  std::filesystem::path tokenizer;   // of tokens: the folder of the one that made them; empty: none
  std::int64_t channels = 1;         // of a folder of pictures: 1, grey; 3, in colour
  ImageSize size{};                  // of a folder of pictures; not given: their own
  std::int64_t classes = 0;          // of the labels of kMnist, kTsv and kCsv; 0: as many as the training labels make
  std::string text_column;           // of kTsv ("sentence" if empty) and kCsv (if empty, it has numbers, not texts)
  std::string label_column;          // empty: "label" beside texts, else the last
  std::vector<std::string> columns;  // of kCsv with numbers: the inputs; empty: all but the target
  std::vector<std::string>
      labels;  // of kTsv and kCsv: names of the classes, in order; empty: as label_words.h numbers them
  Order order = Order::kShuffled;  // how TrainingBatches draws
  ImageInputs images{};            // of kMnist and kImages
};

// Are samples texts with a class each?
inline bool is_labelled_text(const DataOptions& options) {
  return options.kind == DataKind::kTsv || options.kind == DataKind::kWordOrder ||
         (options.kind == DataKind::kCsv && !options.text_column.empty());
}

struct Corpus {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  // null: none

  std::int64_t vocab = 0;  // of the tokenizer; 0: none is known

  std::int64_t classes = 0;  // as DataOptions says; 0: as many as the labels make

  std::vector<std::string> class_names;  // of tables whose labels are words, and of folders of pictures; empty: none

  std::vector<std::string> notes;  // lines for the user, about the vocabulary of labelled texts and about labels

  // Over both splits: `classes` is the larger one, which is the vocabulary a model needs: all of a tokenizer's; and all
  // classes that the options name.
  SampleShape shape() const;
  // Dataset::largest_token() of both splits.
  std::string largest_token() const;
  void require_classes(std::int64_t classes, std::string_view key) const;
};

Corpus open_data(const DataOptions& options);

}  // namespace zero
