#include "app/data/images/mnist.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "app/data/images/idx.h"

namespace zero {
namespace {

constexpr std::string_view kImages = "images-idx3-ubyte";
constexpr std::string_view kLabels = "labels-idx1-ubyte";

struct IdxPair {
  std::filesystem::path images;
  std::filesystem::path labels;
};

// Selects one of several pairs: the test set for data.validation, else the training set. `names` are in order.
std::string chosen_of(const std::vector<std::string>& names, std::string_view key) {
  const auto begins = [](std::string_view prefix) {
    return [prefix](const std::string& name) { return name.starts_with(prefix); };
  };
  auto found = names.end();
  if (key == "data.validation") {
    found = std::ranges::find_if(names, begins("t10k"));
    if (found == names.end()) found = std::ranges::find_if_not(names, begins("train"));
  } else {
    found = std::ranges::find_if(names, begins("train"));
  }
  return found == names.end() ? names.front() : *found;
}

// Returns the images file of a folder.
std::filesystem::path find_images(const std::filesystem::path& folder, std::string_view key) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().native().find(kImages) != std::string::npos)
      names.push_back(entry->path().filename().native());
  if (error) throw ConfigError(key, folder.native(), error.message(), "Check the folder's permissions.");
  if (names.empty())
    throw ConfigError(key, folder.native(), fmt::format("no file *{}(.gz) is in this folder", kImages),
                      "Give the folder that holds MNIST's IDX files.");
  std::sort(names.begin(), names.end());
  return folder / chosen_of(names, key);
}

// Returns the labels file in the folder of the images. Its name has "labels" in place of "images"; it may be
// compressed.
IdxPair find_pair(const std::filesystem::path& path, std::string_view key) {
  const auto images = std::filesystem::is_directory(path) ? find_images(path, key) : path;
  std::string name = images.filename().native();
  const auto at = name.find(kImages);
  if (at == name.npos) {
    require_input_file(key, images);
    throw ConfigError(key, images.native(),
                      fmt::format("the name does not contain {}, so its labels cannot be found", kImages),
                      "Give a folder or an images file with MNIST's names.");
  }
  name = name.substr(0, at).append(kLabels);
  for (const char* const ending : {"", ".gz"}) {
    const auto labels = images.parent_path() / (name + ending);
    if (std::filesystem::exists(labels)) return {images, labels};
  }
  require_input_file(key, images);
  throw ConfigError(key, images.native(), fmt::format("its labels are missing: no {}(.gz) beside it", name),
                    "Put both into one folder.");
}

}  // namespace

LabelledImages read_mnist(const std::filesystem::path& path, std::string_view key) {
  const IdxPair pair = find_pair(path, key);
  IdxArray images = read_idx(pair.images, 3, key);
  const IdxArray labels = read_idx(pair.labels, 1, key);
  if (images.shape[0] != labels.shape[0])
    throw ConfigError(
        key, pair.images.native(),
        fmt::format("holds {} images, but {} holds {} labels", images.shape[0], pair.labels.native(), labels.shape[0]),
        "The two files must come from one set.");
  if (images.values.empty())
    throw ConfigError(key, pair.images.native(), "holds no image", "Give a set with images in it.");
  return {.path = pair.images.native(),
          .height = images.shape[1],
          .width = images.shape[2],
          .pixels = std::move(images.values),
          .labels = {labels.values.begin(), labels.values.end()},
          .labels_path = pair.labels.native()};
}

}  // namespace zero
