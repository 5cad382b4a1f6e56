// LabelledTexts: texts with a class each, in the order in which they stand.
//
//   LabelledTexts reviews = read_tsv("SST-2/train.tsv", "data.path");        // "sentence<TAB>label" and its rows
//   LabelledTexts lines = word_order_texts("input.txt", 1337, "data.path");  // a task made from any text
//
// A .tsv is as GLUE publishes SST-2: a header with columns "sentence" and "label" (others are passed over), then a text and
// its class a line. A .csv is the same with commas, and fields in quotes (csv_reader.h). TextColumns may name other columns.
// Classes are whole numbers from 0, or words (label_words.h). Strict: every line has as many columns as the header.
//
// word_order_texts() asks whether words stand in the order in which somebody wrote them. Each line of the text with five
// words or more gives two samples, one after the other: the line (class 1), and the line with its words in another order
// (class 0), drawn from seed and line number alone; the names of the classes are "as written" and "shuffled". Words are
// letters, digits and apostrophes within; each other mark is a word of its own, and changes its place with the others.
// ASCII capitals become small: they would tell where a line begins.
// A line whose words allow one order only gives none.
//
// ConfigError(key, "path:line"), with the column of a label, for what is malformed or holds no sample; IoError where the file cannot be read. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/held_out.h"
#include "app/data/sample/label_words.h"

namespace zero {

struct LabelledTexts {
  std::string path;
  std::vector<std::string> texts;
  std::vector<std::int64_t> labels;    // one per text
  std::vector<std::int64_t> lines;     // of the file, from 1: for messages
  std::vector<std::string> classes{};  // their names; empty: they have none

  std::int64_t size() const { return static_cast<std::int64_t>(texts.size()); }
  // Brings the texts into another order, by their indices; an empty order leaves them.
  void reorder(const std::vector<std::int64_t>& order) {
    take_in_order(texts, order);
    take_in_order(labels, order);
    take_in_order(lines, order);
  }
};

// The columns that are read, by their names in the header or their numbers from 1.
struct TextColumns {
  std::string text = "sentence";  // data.text_column
  std::string label = "label";    // data.label_column
  LabelRule labels{};
};

LabelledTexts parse_tsv(std::string_view bytes, std::string_view key, std::string_view path,
                        const TextColumns& columns = {});
LabelledTexts read_tsv(const std::filesystem::path& path, std::string_view key, const TextColumns& columns = {});
LabelledTexts parse_csv_texts(std::string_view bytes, std::string_view key, std::string_view path,
                              const TextColumns& columns);
LabelledTexts read_csv_texts(const std::filesystem::path& path, std::string_view key, const TextColumns& columns);

LabelledTexts make_word_order_texts(std::string_view bytes, std::uint64_t seed, std::string_view key,
                                    std::string_view path);
LabelledTexts word_order_texts(const std::filesystem::path& path, std::uint64_t seed, std::string_view key);

}  // namespace zero
