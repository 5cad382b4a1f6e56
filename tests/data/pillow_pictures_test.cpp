// decode_picture() and fitted_picture() against Pillow, on 200 random pictures of all kinds (pillow_pictures.py).
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"

#include "app/data/images/fitted_picture.h"
#include "app/data/sample/picture.h"
#include "tests/support/python_with.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

constexpr int kPictures = 200;
constexpr const char* kModules = "PIL, numpy";

int largest_difference(const std::vector<std::uint8_t>& ours, const std::string& theirs) {
  if (ours.size() != theirs.size()) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    largest = std::max(largest, std::abs(int{ours[i]} - int{static_cast<std::uint8_t>(theirs[i])}));
  return largest;
}

class PillowPictures : public testing::Test {
 protected:
  void SetUp() override {
    const auto python = python_with(kModules);
    if (!python) GTEST_SKIP() << no_python_with(kModules);
    const std::string script = std::string(built::kSourceFolder) + "/tests/data/pillow_pictures.py";
    const std::string command =
        *python + " " + script + " " + folder_.path().native() + " " + std::to_string(kPictures) + " 7";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name); }

 private:
  TemporaryFolder folder_;
};

// JPEGs may differ by one level if Pillow uses another libjpeg. 16-bit colours may differ by one, because Pillow drops
// the lower 8 bits.
TEST_F(PillowPictures, DecodeAndFitAlike) {
  std::istringstream list(read("pictures.txt"));
  int found = 0, exact = 0;
  std::string number, name;
  ImageSize size, fit;
  int most = 0;
  while (list >> number >> name >> size.height >> size.width >> fit.height >> fit.width >> most) {
    ++found;
    const int allowed = name.ends_with(".jpg") ? 1 : most;
    const std::string file = read(name);
    const Picture grey = decode_picture(file, 1, "data.path", name), rgb = decode_picture(file, 3, "data.path", name);
    EXPECT_EQ((ImageSize{grey.height, grey.width}), size) << name;
    const int in_grey = largest_difference(grey.pixels, read(number + ".grey"));
    const int in_colour = largest_difference(rgb.pixels, read(number + ".rgb"));
    const auto fitted = fitted_picture(grey, fit).pixels;
    const int in_passes = largest_difference(fitted, read(number + ".passes"));
    EXPECT_LE(in_grey, allowed) << name;
    EXPECT_LE(in_colour, allowed) << name;
    EXPECT_LE(in_passes, in_grey) << name;
    EXPECT_LE(largest_difference(fitted, read(number + ".fit")), 1 + in_grey) << name;
    if (in_grey + in_colour + in_passes == 0) ++exact;
  }
  EXPECT_EQ(found, kPictures);
  RecordProperty("exact", exact);
  EXPECT_GT(exact, 3 * kPictures / 4);
}

}  // namespace
}  // namespace zero
