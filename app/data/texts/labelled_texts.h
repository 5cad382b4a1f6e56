// LabelledTexts: texts with a class each, in the file's order.
//
//   LabelledTexts reviews = read_tsv("SST-2/train.tsv", "data.path");        // "sentence<TAB>label" and its rows
//   LabelledTexts lines = word_order_texts("input.txt", 1337, "data.path");  // a task made from any text
//
// A .tsv has GLUE's form of SST-2: a header with the columns "sentence" and "label", then a text and its class per
// line. Other columns are ignored. A .csv is the same with commas, and fields in quotes (csv_reader.h). TextColumns may
// name other columns. Classes are whole numbers from 0, or words (label_words.h). Every line has as many columns as the
// header.
//
// Local. Throws ConfigError(key, "path:line"), with the column of a label, if a file is malformed or has no sample.
// Throws IoError if it cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/held_out.h"
#include "app/data/sample/label_words.h"
#include "app/data/tables/csv.h"

namespace zero {

struct LabelledTexts {
  std::string path;
  std::vector<std::string> texts;
  std::vector<std::int64_t> labels;    // class of each text
  std::vector<std::int64_t> lines;     // line of each text in the file, from 1, for messages
  std::vector<std::string> classes{};  // names of the classes; empty: they have no names
  TakenColumns taken{};                // columns of the text and of the label

  std::int64_t size() const { return static_cast<std::int64_t>(texts.size()); }
  // Reorders the texts: `order` has their indices in the new order. An empty order changes nothing.
  void reorder(const std::vector<std::int64_t>& order) {
    take_in_order(texts, order);
    take_in_order(labels, order);
    take_in_order(lines, order);
  }
};

// The names of the columns that are read, in the header, or their numbers from 1.
struct TextColumns {
  std::string text = "sentence";  // data.text_column
  std::string label = "label";    // data.label_column
  LabelRule labels{};
  TakenColumns trained{};  // of held-out data: the columns of the training data
};

LabelledTexts parse_tsv(std::string_view bytes, std::string_view key, std::string_view path,
                        const TextColumns& columns = {});
LabelledTexts read_tsv(const std::filesystem::path& path, std::string_view key, const TextColumns& columns = {});
LabelledTexts parse_csv_texts(std::string_view bytes, std::string_view key, std::string_view path,
                              const TextColumns& columns);
LabelledTexts read_csv_texts(const std::filesystem::path& path, std::string_view key, const TextColumns& columns);

// Makes a task from a text: are the words in the order in which they were written? Each line with five words or more
// gives two samples: the line (class 1, "as written"), then its words in another order (class 0, "shuffled"). That
// order depends only on seed and line number. A line whose words have only one order gives no samples. A word has
// letters, digits and inner apostrophes; every other mark is a word. ASCII letters become lower-case, because capitals
// would show where a line begins.
LabelledTexts make_word_order_texts(std::string_view bytes, std::uint64_t seed, std::string_view key,
                                    std::string_view path);
LabelledTexts word_order_texts(const std::filesystem::path& path, std::uint64_t seed, std::string_view key);

}  // namespace zero
