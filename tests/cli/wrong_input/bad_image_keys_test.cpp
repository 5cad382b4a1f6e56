// Wrong keys of images: each ends with status 2, and the refusal names the key and a right value.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

struct WrongKey {
  std::string name;  // name of the test
  std::string kind, line;
  std::vector<std::string> says;
};

void PrintTo(const WrongKey& wrong, std::ostream* out) {
  *out << wrong.line;
}

class BadImageKeys : public testing::TestWithParam<WrongKey> {
 protected:
  Folder folder_;
};

TEST_P(BadImageKeys, AreRefusedWithARemedy) {
  const WrongKey& wrong = GetParam();
  std::filesystem::create_directories(folder_.path() / "pictures/cat");
  const std::string model = wrong.kind == "text" ? "gpt2" : "cnn";
  folder_.write("bad.toml", "[model]\nname = \"" + model + "\"\n[data]\nkind = \"" + wrong.kind +
                                "\"\npath = \"pictures\"\n" + wrong.line + "\n[run]\ndir = \"run\"\n");
  const Ran ran = folder_.zero("train bad.toml");
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_TRUE(says(ran.errors, "bad.toml:6: data.")) << ran.errors;
  for (const std::string& part : wrong.says) EXPECT_TRUE(says(ran.errors, part)) << ran.errors;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run"));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadImageKeys,
    testing::Values(
        WrongKey{"SizeOfText", "text", "size = 32", {"data.kind = \"text\" has no such key", "use data.kind images"}},
        WrongKey{"SizeOfDigits", "mnist", "size = 32", {"data.size = 32", "use data.kind images"}},
        WrongKey{"SizeWithOneSide",
                 "images",
                 "size = [0, 32]",
                 {"data.size = [0, 32]", "only one side is given", "height and width, such as [96, 128]"}},
        WrongKey{"SizeOfThree",
                 "images",
                 "size = [1, 2, 3]",
                 {"data.size = [1, 2, 3]", "3 numbers instead of two", "allowed: an integer"}},
        WrongKey{"SizeBeyondPictures", "images", "size = 20000", {"data.size = 20000", "from 0 to 16384"}},
        WrongKey{"MeanOfTwo",
                 "images",
                 "mean = [0.5, 0.5]",
                 {"data.mean = [0.5, 0.5]", "2 numbers for images of 1 channel", "give one number"}},
        WrongKey{"MeanOfText", "text", "mean = 0.5", {"data.mean = ", "use data.kind mnist or images"}},
        WrongKey{"MeanOfAWord",
                 "images",
                 "mean = \"imagenet\"",
                 {"data.mean = \"imagenet\"", "does not fit here", "such as [0.485, 0.456, 0.406]"}},
        WrongKey{"StdOfZero", "images", "std = 0", {"data.std = 0", "out of range", "above 0"}},
        WrongKey{"StdOfThree", "mnist", "std = [1, 1, 1]", {"data.std = ", "3 numbers for images of 1 channel"}},
        WrongKey{"AugmentOfNoName",
                 "images",
                 "augment = \"flop\"",
                 {"data.augment = \"flop\"", "none, shift, flip, shift_flip"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace zero
