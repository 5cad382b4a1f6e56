// open_data(): opens the training and the validation split that [data] of a configuration describes.
//
//   Corpus corpus = open_data({.kind = DataKind::kText, .path = "input.txt", .validation = 0.1, .context = 64});
//   corpus.shape().classes                          // 256
//   corpus.require_classes(vocab, "model.vocab");    // for a model that is given
//
// Labels are checked by ClassRange (app/data/sample/class_range.h). The classes of a folder of pictures are its
// folders, two or more. A file must not be in both splits. (A folder may hold both sets of MNIST: mnist.h.) Text and
// tokens may be in several files, which form one stream (token_shards.h). Other kinds are read from one file or folder.
// held_out.h says which samples a fraction holds out.
//
// Local: each rank reads the files itself. If a file is wrong, throws ConfigError under its key, such as "data.path",
// "data.vocab" or "data.columns", or under the key of known words.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zero/base/files/data_files.h"
#include "zero/base/numbers/choice.h"

#include "app/data/images/fitted_picture.h"
#include "app/data/images/image_dataset.h"
#include "app/data/sample/dataset.h"

namespace zero {

// kImages: a folder of pictures (image_folder.h). kWordOrder: a task made from a text by word_order_texts()
// (labelled_texts.h).
enum class DataKind { kText, kTokens, kMnist, kImages, kCsv, kTsv, kWordOrder };
// Words of data.kind, in the order of DataKind.
inline constexpr std::array<Choice<DataKind>, 7> kDataKinds{{{"text", DataKind::kText},
                                                             {"tokens", DataKind::kTokens},
                                                             {"mnist", DataKind::kMnist},
                                                             {"images", DataKind::kImages},
                                                             {"csv", DataKind::kCsv},
                                                             {"tsv", DataKind::kTsv},
                                                             {"word_order", DataKind::kWordOrder}}};
constexpr std::string_view name_of(DataKind kind) {
  return kDataKinds[static_cast<std::size_t>(kind)].word;
}

// Held-out data: a fraction in [0, 1) from the end of the training data, or other files. 0: no validation.
using Validation = std::variant<double, DataFiles>;

// The words that a run learned before, with which another run, or its continuation, reads its texts.
struct KnownWords {
  std::string lines;  // Vocabulary::lines()
  std::string key;    // errors are under it: "run.dir" or "model.init"
  std::string path;   // file of the words
};

struct DataOptions {
  DataKind kind = DataKind::kText;
  DataFiles path;
  Validation validation = 0.1;
  std::int64_t context = 0;     // tokens per sample; kinds of numbers ignore it
  std::int64_t words = 4000;    // labelled texts: size of the vocabulary that is learned from the training texts
  std::filesystem::path vocab;  // labelled texts: file of a WordPiece vocabulary; empty: a vocabulary is learned
  std::optional<KnownWords> known_words;  // labelled texts without vocab: words that replace learning
  std::optional<bool>
      lower_case;  // with vocab: are texts lower-cased? Empty: it depends on the vocabulary (vocabulary.h)
  std::filesystem::path tokenizer;   // kTokens: folder of the tokens' tokenizer; empty: no tokenizer
  std::int64_t channels = 1;         // kImages: 1 for grey, 3 for colour
  ImageSize size{};                  // kImages: size of all images; not given: the pictures' own size
  std::int64_t classes = 0;          // kMnist, kTsv, kCsv: number of classes; 0: as many as the training labels make
  std::string text_column;           // column of texts. If empty, kTsv reads "sentence", and kCsv reads numbers
  std::string label_column;          // column of labels or targets; empty: "label" for texts, else the last column
  std::vector<std::string> columns;  // kCsv with numbers: the inputs; empty: all columns but the target
  std::vector<std::string> labels;   // kTsv, kCsv: names of the classes, in order; empty: label_words.h numbers them
  Order order = Order::kShuffled;    // order of the samples in TrainingBatches
  ImageInputs images{};              // kMnist, kImages
};

// Is each sample a text with a class?
inline bool is_labelled_text(const DataOptions& options) {
  return options.kind == DataKind::kTsv || options.kind == DataKind::kWordOrder ||
         (options.kind == DataKind::kCsv && !options.text_column.empty());
}

// Are the words of the texts learned, unless they are known?
inline bool learns_words(const DataOptions& options) {
  return is_labelled_text(options) && options.vocab.empty();
}

struct Corpus {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  // null: no validation

  std::int64_t vocab = 0;  // number of the tokenizer's tokens; 0: unknown

  std::int64_t classes = 0;  // number of classes in the options; 0: as many as the labels make

  std::vector<std::string> class_names;  // names of classes from words or folders; empty: classes have no names

  std::string words;  // words that were learned or known (Vocabulary::lines()); empty: the data has none

  std::vector<std::string> notes;  // lines for the user, about the vocabulary of labelled texts and about labels

  // Returns the shape of both splits. `classes` is the vocabulary that a model needs. It is the largest of both
  // numbers, the tokenizer's number of tokens, and the options' number of classes.
  SampleShape shape() const;
  // Returns Dataset::largest_token() of both splits.
  std::string largest_token() const;
  void require_classes(std::int64_t classes, std::string_view key) const;
};

Corpus open_data(const DataOptions& options);

}  // namespace zero
