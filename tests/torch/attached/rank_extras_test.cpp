#include "zero/torch/attached/rank_extras.h"

#include <gtest/gtest.h>

#include <torch/types.h>
#include <torch/utils.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

// The manifest of a checkpoint in which each rank saved its entry of `ranks`.
Manifest manifest_of(const std::vector<std::vector<Extra>>& ranks) {
  Manifest manifest;
  for (const auto& extras : ranks) {
    SavedFile file{.name = rank_file_name(static_cast<int>(manifest.files.size())), .content = {}};
    for (const Extra& extra : extras)
      file.extras.push_back({.name = extra.name,
                             .dtype = extra.dtype,
                             .shape = extra.shape,
                             .size_bytes = static_cast<std::int64_t>(extra.bytes.size())});
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

// Either every rank saves its generator, or every rank saves that it shared one.
TEST(RankExtras, SavesGeneratorOrSharedOne) {
  const std::vector<Extra> own = extras_of({}, true), shared = extras_of({}, false);
  EXPECT_NO_THROW(require_generators(manifest_of({own}), "c"));
  EXPECT_NO_THROW(require_generators(manifest_of({own, own}), "c"));
  EXPECT_NO_THROW(require_generators(manifest_of({shared, shared}), "c"));
  const auto refusal = [](const Manifest& manifest) {
    return message_of<IoError>([&] { require_generators(manifest, "c"); });
  };
  EXPECT_TRUE(says(refusal(manifest_of({{}})), "c: load: rank-00000.safetensors has no rng/cpu"));
  EXPECT_TRUE(says(refusal(manifest_of({own, {}})),
                   "c: load: rank-00001.safetensors has no rng/cpu: it is damaged, or written by an earlier version"));
  EXPECT_TRUE(says(refusal(manifest_of({own, shared})), "rank-00001.safetensors has no rng/cpu"));
  EXPECT_TRUE(says(refusal(manifest_of({shared, own})), "rank-00001.safetensors has no rng/cpu"));
  std::vector<Extra> longer = own;
  longer.front().shape.front() += 1;
  EXPECT_TRUE(says(refusal(manifest_of({own, longer})), "rank-00001.safetensors has the rng/cpu of a generator"));
}

// A shared generator is not restored. It continues from its current state.
TEST(RankExtras, GeneratorContinuesWhereItWas) {
  NamedBuffers none;
  torch::manual_seed(3);
  const std::vector<Extra> own = extras_of(none, true), shared = extras_of(none, false);
  const torch::Tensor first = torch::rand({5}), second = torch::rand({5});
  take_extras(own, none, true, "c");
  EXPECT_TRUE(torch::equal(torch::rand({5}), first));
  take_extras(shared, none, true, "c");
  EXPECT_TRUE(torch::equal(torch::rand({5}), second));
}

TEST(GeneratorExtra, DrawsOnWhereItWasSaved) {
  torch::manual_seed(11);
  const std::vector<Extra> extras{generator_extra("rng/here", c10::Device(c10::DeviceType::CPU))};
  const torch::Tensor expected = torch::rand({5});
  torch::rand({3});
  take_generator(extras, "rng/elsewhere", c10::Device(c10::DeviceType::CPU), "c");
  EXPECT_FALSE(torch::equal(torch::rand({5}), expected)) << "there is none of that name";
  take_generator(extras, "rng/here", c10::Device(c10::DeviceType::CPU), "c");
  EXPECT_TRUE(torch::equal(torch::rand({5}), expected));
}

TEST(GeneratorExtra, OfAnotherSizeIsRefused) {
  std::vector<Extra> extras{generator_extra("rng/here", c10::Device(c10::DeviceType::CPU))};
  extras.front().shape = {7};
  EXPECT_THROW(take_generator(extras, "rng/here", c10::Device(c10::DeviceType::CPU), "c"), IoError);
}

}  // namespace
}  // namespace zero
