#include "app/report/same_configuration.h"

#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/comm/transport/worlds.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr std::string_view kText = "[train]\nsteps = 6\nclip = 1.0\n\n[run]\ndir = \"a = b\"\nthreads = 0\n";

TEST(SameConfiguration, EqualHashesPassInSilence) {
  run_ranks(3, [](World& world) { EXPECT_NO_THROW(require_same_configuration(world.communicator(), 7, kText)); });
}

// Every rank names the first differing rank and its keys.
TEST(SameConfiguration, EveryRankNamesFirstDifference) {
  std::array<std::string, 3> messages;
  run_ranks(3, [&](World& world) {
    const bool last = world.rank() == 2;
    std::string text(kText);
    if (last) text.replace(text.find("6"), 1, "1000000");  // also of another length
    messages[static_cast<std::size_t>(world.rank())] =
        message_of<ConfigError>([&] { require_same_configuration(world.communicator(), last ? 5 : 4, text); });
  });
  for (const auto& message : messages)
    EXPECT_TRUE(says(message, "rank 2: differs from rank 0's: train.steps = 1000000, not 6\n"));
}

TEST(SameConfiguration, HashesAloneAreEnoughToRefuse) {
  run_ranks(2, [](World& world) {
    const auto hash = static_cast<std::uint64_t>(world.rank());
    const auto message =
        message_of<ConfigError>([&] { require_same_configuration(world.communicator(), hash, "same"); });
    EXPECT_TRUE(says(message, "rank 1: differs from rank 0's\n"));
  });
}

TEST(DifferingKeys, NameSectionAndBothValues) {
  EXPECT_EQ(differing_keys(kText, kText), "");
  EXPECT_EQ(differing_keys("[a]\nx = 1\n[b]\nx = \"u = v\"\n", "[a]\nx = 1\n[b]\nx = \"w\"\n"),
            " b.x = \"u = v\", not \"w\"");
  EXPECT_EQ(differing_keys("[a]\nx = 1\ny = 2", "[a]\nx = 0\ny = 3"), " a.x = 1, not 0; a.y = 2, not 3");
}

TEST(DifferingKeys, ManyGetLinesOfTheirOwn) {
  std::string ours = "[a]\n", theirs = "[a]\n", lines;
  for (int i = 0; i < 9; ++i) {
    ours += "k" + std::to_string(i) + " = 1\n";
    theirs += "k" + std::to_string(i) + " = 2\n";
    lines += "\n    a.k" + std::to_string(i) + " = 1, not 2";
  }
  EXPECT_EQ(differing_keys(ours, theirs), lines);
}

TEST(DifferingKeys, MissingKeysAreNamed) {
  EXPECT_EQ(differing_keys("[a]\nx = 1\n", "[a]\nx = 1\ny = 2\n"), " a.y = (none), not 2");
  EXPECT_EQ(changed_keys("[a]\nx = 1\n", "[a]\nx = 1\n[b]\ny = 2\n"), " b.y = (none) -> 2");
}

TEST(ChangedKeys, NameOldAndNewValue) {
  EXPECT_EQ(changed_keys(kText, kText), "");
  EXPECT_EQ(changed_keys("[a]\nx = 1\ny = 2", "[a]\nx = 0\ny = 3"), " a.x = 1 -> 0; a.y = 2 -> 3");
}

// The error says whether the model or only the training differs.
TEST(SameConfiguration, DistinguishesModelFromTraining) {
  const auto of = [](std::string_view name, int width, int vocab, double dropout, std::string_view sizes) {
    return fmt::format(
        "[model]\nname = \"{}\"\nwidth = {}\nvocab = {}\ndropout = {}\nsizes = [{}]\n[train]\nsteps = {}\n", name,
        width, vocab, dropout, sizes, width);
  };
  const std::string before = of("gpt2", 128, 0, 0, "784, 10");
  constexpr std::array<std::string_view, 5> kGpt2{"model.layers", "model.width", "model.heads", "model.context",
                                                  "model.vocab"};
  constexpr std::array<std::string_view, 1> kMlp{"model.sizes"};
  EXPECT_EQ(changed_model(before, of("gpt2", 256, 0, 0, "784, 10"), kGpt2), " model.width = 128, not 256");
  EXPECT_EQ(changed_model(before, of("gpt2", 128, 256, 0.5, "2, 1"), kGpt2), "");
  EXPECT_EQ(changed_model(of("gpt2", 128, 100, 0, "1"), of("gpt2", 128, 256, 0, "1"), kGpt2),
            " model.vocab = 100, not 256");
  EXPECT_EQ(changed_model(before, of("mlp", 8, 0, 0, "2, 1"), kMlp), " model.name = \"gpt2\", not \"mlp\"");
  EXPECT_EQ(changed_model(of("mlp", 1, 0, 0, "2, 3"), of("mlp", 2, 0, 0, "2, 4"), kMlp),
            " model.sizes = [2, 3], not [2, 4]");
  EXPECT_EQ(changed_model("", before, kGpt2), "") << "if nothing is known";
}

}  // namespace
}  // namespace zero
