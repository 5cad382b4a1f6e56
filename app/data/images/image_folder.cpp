#include "app/data/images/image_folder.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "app/data/sample/picture.h"
#include "app/data/sample/sample_order.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMixSeed = 0x466f6c646572;  // constant: a run's seed must not change the held-out pictures

struct PictureFile {
  fs::path path;
  std::int32_t label = 0;
};

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

std::vector<fs::path> sorted_classes(const fs::path& folder, std::string_view key) {
  if (!fs::is_directory(folder))
    throw ConfigError(key, folder.native(), fs::exists(folder) ? "not a folder" : "no such folder",
                      "give a folder that holds a folder for each class");
  std::vector<fs::path> classes;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (!entry.is_directory())
      throw ConfigError(key, entry.path().native(), "a file among the folders of the classes",
                        "put it into the folder of its class, or take it away");
    classes.push_back(entry.path());
  }
  if (classes.empty())
    throw ConfigError(key, folder.native(), "no folder of a class is in it",
                      "put the pictures of each class into a folder of its own");
  std::ranges::sort(classes);
  return classes;
}

std::vector<fs::path> sorted_pictures(const fs::path& folder, std::string_view key) {
  std::vector<fs::path> pictures;
  fs::recursive_directory_iterator entry(folder);
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    if (is_hidden(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
    } else if (!entry->is_directory()) {
      pictures.push_back(entry->path());
    }
  }
  if (pictures.empty())
    throw ConfigError(key, folder.native(), "this class has no picture", "give it some, or remove its folder");
  std::ranges::sort(pictures);
  return pictures;
}

// Returns the pictures of all classes, mixed.
std::vector<PictureFile> find_pictures(const std::vector<fs::path>& classes, std::string_view key) {
  std::vector<PictureFile> in_order;
  for (std::size_t label = 0; label < classes.size(); ++label)
    for (fs::path& path : sorted_pictures(classes[label], key))
      in_order.push_back({std::move(path), static_cast<std::int32_t>(label)});
  std::vector<PictureFile> mixed;
  const auto count = static_cast<std::int64_t>(in_order.size());
  for (std::int64_t i = 0; i < count; ++i)
    mixed.push_back(in_order[static_cast<std::size_t>(shuffled_row(kMixSeed, i, count))]);
  return mixed;
}

}  // namespace

LabelledImages read_image_folder(const fs::path& folder, std::int64_t channels, std::string_view key, ImageSize size) {
  const std::vector<fs::path> classes = sorted_classes(folder, key);
  LabelledImages images{.path = folder.native(), .channels = channels, .fitted = size.is_given()};
  for (const fs::path& name : classes) images.classes.push_back(name.filename().native());
  Picture first;
  fs::path first_path;
  for (const PictureFile& file : find_pictures(classes, key)) {
    Picture picture = decode_picture(read_file(file.path), channels, key, file.path.native());
    if (size.is_given()) picture = fitted_picture(picture, size);
    if (images.labels.empty()) {
      first = picture;
      first_path = file.path;
    } else if (picture.height != first.height || picture.width != first.width) {
      throw ConfigError(key, file.path.native(),
                        fmt::format("{} x {} pixels, but {} has {} x {}", picture.height, picture.width,
                                    first_path.native(), first.height, first.width),
                        "set data.size, such as data.size = 64, to resize all pictures to one size");
    }
    images.pixels.insert(images.pixels.end(), picture.pixels.begin(), picture.pixels.end());
    images.labels.push_back(file.label);
  }
  images.height = first.height;
  images.width = first.width;
  return images;
}

}  // namespace zero
