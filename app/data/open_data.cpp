#include "app/data/open_data.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

#include "app/data/images/image_folder.h"
#include "app/data/images/mnist.h"
#include "app/data/sample/class_range.h"
#include "app/data/sample/held_out.h"
#include "app/data/tables/csv.h"
#include "app/data/tables/table_dataset.h"
#include "app/data/texts/labelled_text_dataset.h"
#include "app/data/tokens/byte_pair_tokenizer.h"
#include "app/data/tokens/token_dataset.h"

namespace zero {
namespace {

constexpr std::string_view kPath = "data.path";
constexpr std::string_view kValidation = "data.validation";
constexpr std::uint64_t kWordOrderSeed = 1337;  // constant: a run's seed must not change the samples

using FileId = std::pair<dev_t, ino_t>;

// Returns a file's id, which is equal for all paths and links to it. Empty if there is no such file; its reader reports
// it.
std::optional<FileId> id_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileId{found.st_dev, found.st_ino};
}

[[noreturn]] void refuse_trained(std::string_view held) {
  throw ConfigError(kValidation, held,
                    "data.path also reads it, and validation needs samples that the model has not learned",
                    "set other data, or a fraction such as 0.1 to hold out the end of data.path");
}

// A folder with both sets of MNIST may be named twice: open_images() looks at the files in it.
void require_other_files(const DataOptions& options) {
  const auto* const held = std::get_if<DataFiles>(&options.validation);
  if (held == nullptr || options.kind == DataKind::kMnist) return;
  std::set<FileId> trained;
  for (const std::string& path : options.path.paths)
    if (const auto id = id_of(path)) trained.insert(*id);
  for (const std::string& path : held->paths)
    if (const auto id = id_of(path); id && trained.contains(*id)) refuse_trained(path);
}

bool has_numbered_classes(DataKind kind) {
  return kind == DataKind::kMnist || kind == DataKind::kTsv || kind == DataKind::kCsv;
}

void require_classes_of_labels(const DataOptions& options) {
  if (options.classes == 0) return;
  const auto refuse = [&](std::string_view reason, std::string_view remedy) {
    throw ConfigError("data.classes", fmt::format("{}", options.classes), reason, remedy);
  };
  if (!has_numbered_classes(options.kind))
    refuse("only labels of mnist, tsv and csv are numbers of classes", "use 0, or data.kind mnist, tsv or csv");
  if (options.classes < 2) refuse("nothing to choose from", "use 2 or more, or 0: as many as the data has");
}

// Makes both splits. `load(files, key)` reads files, `part(file, begin, end, key)` makes a dataset of a part, and
// `size(file)` returns the number of samples. `hold(file, fraction)` moves the held-out samples to the end, and returns
// their number.
template <typename Load, typename Size, typename Part, typename Hold>
Corpus split(const DataOptions& options, Load load, Size size, Part part, Hold hold) {
  auto file = load(options.path, kPath);
  const std::int64_t n = size(file);
  Corpus corpus;
  if (const auto* const other = std::get_if<DataFiles>(&options.validation)) {
    const auto held = load(*other, kValidation);
    corpus.train = part(file, 0, n, kPath);
    corpus.validation = part(held, 0, size(held), kValidation);
    return corpus;
  }
  const std::int64_t held = hold(file, std::get<double>(options.validation));
  corpus.train = part(file, 0, n - held, kPath);
  if (held > 0) corpus.validation = part(file, n - held, n, kValidation);
  return corpus;
}

// Makes both splits of samples without classes: the end is held out.
template <typename Load, typename Size, typename Part>
Corpus split(const DataOptions& options, Load load, Size size, Part part) {
  return split(options, load, size, part,
               [&](const auto& file, double fraction) { return held_out(fraction, size(file)); });
}

// Holds out samples of each class, for split(). Adds a note if the end of a file was not fair. `file` must have
// reorder(order), and `labels_of_file` are the classes of its samples.
template <typename File, typename Labels>
std::int64_t hold_classes(File& file, const Labels& labels_of_file, double fraction, bool in_file_order,
                          std::vector<std::string>& notes) {
  const std::vector<std::int64_t> labels(labels_of_file.begin(), labels_of_file.end());
  const HeldOut held = hold_out_classes(labels, fraction, in_file_order);
  if (fraction > 0 && held.count == 0 && !labels.empty())
    throw ConfigError(kValidation, fmt::format("{}", fraction), "no class has two samples, so none can be held out",
                      "use 0, give more samples of a class, or name other data");
  file.reorder(held.order);
  if (in_file_order && !held.order.empty())
    notes.push_back(
        fmt::format("note: {} = {} holds out the last samples of each class: the end of the data has too few "
                    "or too many of a class",
                    kValidation, fraction));
  return held.count;
}

// Returns a loader for kinds with only one file or folder, which `load(path, key)` reads.
template <typename Load>
auto one_file(Load load) {
  return [load](const DataFiles& files, std::string_view key) {
    if (files.paths.size() > 1)
      throw ConfigError(key, files.text(), "only text and tokens can have several files", "name one file or folder");
    return load(std::filesystem::path(files.empty() ? "" : files.paths.front()), key);
  };
}

Corpus open_tokens(const DataOptions& options, TokenKind kind) {
  if (options.context <= 0)
    throw ConfigError("data.context", fmt::format("{}", options.context), "a sample needs one token or more",
                      "Set data.context or model.context.");
  struct Source {
    DataFiles files;
    std::int64_t size;
  };
  // Each part opens its own files: that takes no memory, and no ownership is shared.
  return split(
      options,
      [&](const DataFiles& files, std::string_view key) {
        if (files.empty()) throw ConfigError(key, "", "no data is set", "name a file");
        return Source{files, TokenShards(files, kind, key).size()};
      },
      [](const Source& source) { return source.size; },
      [&](const Source& source, std::int64_t begin, std::int64_t end, std::string_view key) {
        return std::make_unique<TokenDataset>(TokenShards(source.files, kind, key, begin, end), begin, end,
                                              options.context, key);
      });
}

// Refuses held-out images whose class names differ, because a number would then mean another class.
void require_same_classes(const std::vector<std::string>& training, const LabelledImages& images,
                          std::string_view key) {
  for (std::size_t i = 0; i < std::max(training.size(), images.classes.size()); ++i) {
    const std::string_view wanted = i < training.size() ? std::string_view(training[i]) : "none";
    const std::string_view has = i < images.classes.size() ? std::string_view(images.classes[i]) : "none";
    if (wanted != has)
      throw ConfigError(key, images.path, fmt::format("class {} is {}, but in {} it is {}", i, has, kPath, wanted),
                        "both folders must have the same classes");
  }
}

// Refuses a folder of pictures with only one class.
void require_two_classes(const LabelledImages& images, std::string_view key) {
  if (images.classes.size() == 1)
    throw ConfigError(key, images.path, fmt::format("all images are of one class, {}", images.classes.front()),
                      "give a folder for each class, two or more");
}

// Returns the number of classes: the number of names if classes have names, else that of the options; 0: unknown.
std::int64_t classes_of(const std::vector<std::string>& names, const DataOptions& options) {
  return names.empty() ? options.classes : std::ssize(names);
}

// Checks the labels of samples [begin, end). The first call, for the training part, sets the range; split() makes that
// part first. `where(i)` is the place of sample i.
template <typename Labels, typename Where>
void check_labels(std::optional<ClassRange>& range, std::int64_t classes, const Labels& labels, std::int64_t begin,
                  std::int64_t end, std::string_view key, Where where) {
  const auto part = std::span(labels).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  const auto of_part = [&](std::int64_t i) { return where(begin + i); };
  if (range) return range->require(part, key, of_part);
  range.emplace(classes).learn(part, key, of_part);
}

void add_note(Corpus& corpus, const std::optional<ClassRange>& range) {
  if (range && !range->note().empty()) corpus.notes.push_back(range->note());
}

template <typename Read>
Corpus open_images(const DataOptions& options, Read read) {
  std::vector<std::string> classes;  // classes of the training images, which split() reads first
  std::optional<FileId> trained;     // file or folder of the training images
  std::optional<ClassRange> range;
  std::vector<std::string> notes;
  Corpus corpus = split(
      options, one_file([&](const std::filesystem::path& path, std::string_view key) {
        LabelledImages images = read(path, key);
        if (key == kPath) {
          require_two_classes(images, key);
          classes = images.classes;
          trained = id_of(images.path);
        } else if (trained == id_of(images.path)) {
          refuse_trained(images.path);
        }
        require_same_classes(classes, images, key);
        return images;
      }),
      [](const LabelledImages& images) { return images.size(); },
      [&](const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key) {
        check_labels(range, classes_of(images.classes, options), images.labels, begin, end, key, [&](std::int64_t i) {
          return place_of_label(images.number_of(i), images.labels_path, images.path);
        });
        return std::make_unique<ImageDataset>(images, begin, end, key, options.images);
      },
      [&](LabelledImages& images, double fraction) {
        // The pictures of a folder have no order.
        return hold_classes(images, images.labels, fraction, /*in_file_order=*/options.kind != DataKind::kImages,
                            notes);
      });
  corpus.notes.insert(corpus.notes.end(), notes.begin(), notes.end());
  corpus.class_names = std::move(classes);
  add_note(corpus, range);
  return corpus;
}

// TableLabels: the rule for a file's labels. Held-out data follows the training data, which is read first.
class TableLabels {
 public:
  TableLabels(const DataOptions& options, Corpus& corpus)
      : options_(options), corpus_(corpus), rule_{.names = options.labels} {}

  const LabelRule& rule() const { return rule_; }

  // Takes the labels of a file that was read with rule().
  void take(const NamedLabels& read, std::string_view path, std::string_view key) {
    if (key != kPath) return;
    if (options_.classes > 0 && !read.names.empty() && options_.classes != std::ssize(read.names))
      throw ConfigError("data.classes", fmt::format("{}", options_.classes),
                        fmt::format("{} classes have names", read.names.size()),
                        "leave data.classes out, or name all classes with data.labels");
    rule_ = rule_of_training(rule_, read.names);
    corpus_.class_names = read.names;
    if (!read.names.empty() && options_.kind != DataKind::kWordOrder) corpus_.notes.push_back(class_line(path, read));
  }

 private:
  const DataOptions& options_;
  Corpus& corpus_;
  LabelRule rule_;
};

// Returns `known`, which has names and notes, with the splits of `splits`.
Corpus with_splits(Corpus known, Corpus splits) {
  known.train = std::move(splits.train);
  known.validation = std::move(splits.validation);
  return known;
}

Corpus open_table(const DataOptions& options) {
  struct Source {
    std::filesystem::path path;
    CsvTable table;
  };
  Corpus known;
  TableLabels labels(options, known);
  std::optional<ClassRange> range;
  std::vector<std::string> notes;
  TakenColumns trained;
  bool are_classes = options.classes > 0;
  Corpus splits = split(
      options, one_file([&](const std::filesystem::path& path, std::string_view key) {
        CsvTable table = read_csv(path, key,
                                  {.columns = options.columns,
                                   .label_column = options.label_column,
                                   .classes = are_classes,
                                   .labels = labels.rule(),
                                   .trained = trained});
        if (key == kPath) {
          are_classes = !table.classes.labels.empty();
          trained = table.taken;
        }
        if (are_classes != !table.classes.labels.empty())
          throw ConfigError(key, fmt::format("{}:{}", path.native(), table.lines.front()),
                            "the target is a word, but in data.path it is a number",
                            "give both files the same columns");
        if (are_classes) labels.take(table.classes, path.native(), key);
        return Source{path, std::move(table)};
      }),
      [](const Source& source) { return source.table.num_rows(); },
      [&](const Source& source, std::int64_t begin, std::int64_t end, std::string_view key) {
        const CsvTable& table = source.table;
        if (are_classes)
          check_labels(range, classes_of(table.classes.names, options), table.classes.labels, begin, end, key,
                       [&](std::int64_t i) {
                         return fmt::format("{}:{}", source.path.native(), table.lines[static_cast<std::size_t>(i)]);
                       });
        return std::make_unique<TableDataset>(table, begin, end, key, source.path.native());
      },
      [&](Source& source, double fraction) {
        CsvTable& table = source.table;
        if (!are_classes) return held_out(fraction, table.num_rows());
        return hold_classes(table, table.classes.labels, fraction, /*in_file_order=*/true, notes);
      });
  known.notes.insert(known.notes.end(), notes.begin(), notes.end());
  add_note(known, range);
  return with_splits(std::move(known), std::move(splits));
}

TextColumns text_columns(const DataOptions& options, const LabelRule& rule, const TakenColumns& trained) {
  TextColumns columns{.labels = rule, .trained = trained};
  if (!options.text_column.empty()) columns.text = options.text_column;
  if (!options.label_column.empty()) columns.label = options.label_column;
  return columns;
}

// Opens labelled texts. The vocabulary is read from a file, known, or learned from the training texts; split() makes
// that part first. `read(path, key, rule, trained)` reads a file whose labels follow a rule; `trained`: the columns of
// the training texts, for held-out data.
template <typename Read>
Corpus open_labelled_texts(const DataOptions& options, Read read) {
  Corpus known;
  TableLabels labels(options, known);
  std::optional<Vocabulary> vocabulary;
  std::optional<ClassRange> range;
  std::vector<std::string> notes;
  TakenColumns trained;
  if (!options.vocab.empty()) {
    vocabulary = Vocabulary::read(options.vocab, "data.vocab", options.lower_case);
  } else if (options.known_words) {
    const KnownWords& words = *options.known_words;
    vocabulary = Vocabulary::of_lines(words.lines, words.key, words.path);
  }
  Corpus splits = split(
      options, one_file([&](const std::filesystem::path& path, std::string_view key) {
        LabelledTexts texts = read(path, key, labels.rule(), trained);
        if (key == kPath) trained = texts.taken;
        labels.take({texts.labels, texts.classes}, texts.path, key);
        return texts;
      }),
      [](const LabelledTexts& texts) { return texts.size(); },
      [&](const LabelledTexts& texts, std::int64_t begin, std::int64_t end, std::string_view key) {
        check_labels(range, classes_of(texts.classes, options), texts.labels, begin, end, key, [&](std::int64_t i) {
          return fmt::format("{}:{}", texts.path, texts.lines[static_cast<std::size_t>(i)]);
        });
        if (!vocabulary) {
          const std::span<const std::string> all(texts.texts);
          vocabulary = Vocabulary::learn(
              all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), options.words);
        }
        return std::make_unique<LabelledTextDataset>(texts, begin, end, *vocabulary, options.context, key);
      },
      [&](LabelledTexts& texts, double fraction) {
        return hold_classes(texts, texts.labels, fraction, /*in_file_order=*/true, notes);
      });
  if (learns_words(options)) known.words = vocabulary->lines();
  const std::vector<std::string> of_vocabulary = vocabulary->notes();
  known.notes.insert(known.notes.begin(), of_vocabulary.begin(), of_vocabulary.end());
  known.notes.insert(known.notes.end(), notes.begin(), notes.end());
  add_note(known, range);
  return with_splits(std::move(known), std::move(splits));
}

Corpus open_kind(const DataOptions& options) {
  switch (options.kind) {
    case DataKind::kText:
      return open_tokens(options, TokenKind::kText);
    case DataKind::kTokens:
      return open_tokens(options, TokenKind::kTokens);
    case DataKind::kMnist:
      return open_images(options, read_mnist);
    case DataKind::kImages:
      return open_images(options, [&](const std::filesystem::path& path, std::string_view key) {
        return read_image_folder(path, options.channels, key, options.size);
      });
    case DataKind::kCsv:
      if (options.text_column.empty()) return open_table(options);
      return open_labelled_texts(options, [&](const std::filesystem::path& path, std::string_view key,
                                              const LabelRule& rule, const TakenColumns& trained) {
        return read_csv_texts(path, key, text_columns(options, rule, trained));
      });
    case DataKind::kTsv:
      return open_labelled_texts(options, [&](const std::filesystem::path& path, std::string_view key,
                                              const LabelRule& rule, const TakenColumns& trained) {
        return read_tsv(path, key, text_columns(options, rule, trained));
      });
    case DataKind::kWordOrder:
      return open_labelled_texts(
          options, [](const std::filesystem::path& path, std::string_view key, const LabelRule&, const TakenColumns&) {
            return word_order_texts(path, kWordOrderSeed, key);
          });
  }
  ZERO_CHECK(false, "data kind {}", static_cast<int>(options.kind));
  return {};
}

void require_tokenizer(const DataOptions& options, Corpus& corpus) {
  if (options.kind != DataKind::kTokens)
    throw ConfigError("data.tokenizer", options.tokenizer.native(), "this data has no tokens of a tokenizer",
                      "write the text as tokens first (`zero tokenize`), and use data.kind tokens");
  const std::int64_t known = BytePairTokenizer::read(options.tokenizer, "data.tokenizer").size();
  if (corpus.shape().classes > known)
    throw ConfigError("data.tokenizer", options.tokenizer.native(),
                      fmt::format("it has {} tokens, and {}", known, corpus.largest_token()),
                      "set data.tokenizer to the tokenizer that made the data");
  corpus.vocab = known;
}

void require_same_inputs(const DataOptions& options, const Corpus& corpus) {
  if (!corpus.validation) return;
  const SampleShape train = corpus.train->shape(), held = corpus.validation->shape();
  if (held.height != train.height || held.width != train.width)
    throw ConfigError(kValidation, std::get<DataFiles>(options.validation).text(),
                      fmt::format("has images of {} x {} pixels, but those of the training data have {} x {}",
                                  held.height, held.width, train.height, train.width),
                      options.kind == DataKind::kImages ? "set data.size to resize all images to one size"
                                                        : "both must have one image size");
  if (held.features != train.features)
    throw ConfigError(
        kValidation, std::get<DataFiles>(options.validation).text(),
        fmt::format("has {} numbers per input, but the training data has {}", held.features, train.features),
        "both must have the same columns");
}

}  // namespace

SampleShape Corpus::shape() const {
  SampleShape shape = train->shape();
  if (validation) shape.classes = std::max(shape.classes, validation->shape().classes);
  shape.classes = std::max({shape.classes, vocab, classes});
  return shape;
}

std::string Corpus::largest_token() const {
  const bool held_out = validation && validation->shape().classes > train->shape().classes;
  return (held_out ? *validation : *train).largest_token();
}

void Corpus::require_classes(std::int64_t classes, std::string_view key) const {
  train->require_classes(classes, key);
  if (validation) validation->require_classes(classes, key);
}

Corpus open_data(const DataOptions& options) {
  if (const auto* const fraction = std::get_if<double>(&options.validation);
      fraction && !(*fraction >= 0 && *fraction < 1))
    throw ConfigError(kValidation, fmt::format("{}", *fraction), "a fraction must be at least 0 and below 1",
                      "0 holds nothing out; a path names another file.");
  if (options.images.augment != Augment::kNone && options.kind != DataKind::kMnist && options.kind != DataKind::kImages)
    throw ConfigError("data.augment", "shift or flip", "only images can be shifted or flipped",
                      "use none, or data.kind mnist or images");
  require_classes_of_labels(options);
  require_other_files(options);
  Corpus corpus = open_kind(options);
  corpus.classes = std::max(options.classes, std::ssize(corpus.class_names));
  if (!options.tokenizer.empty()) require_tokenizer(options, corpus);
  require_same_inputs(options, corpus);
  return corpus;
}

}  // namespace zero
