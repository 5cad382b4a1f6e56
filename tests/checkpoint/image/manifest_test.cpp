#include "zero/checkpoint/image/manifest.h"

#include <functional>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

// Two tensors, one of them frozen, in two files.
Manifest example() {
  return {.states = {"parameter", "exp_avg"},
          .steps = 7,
          .skipped = 1,
          .run = {{"step", "8"}, {"samples", "96"}},
          .config = "[model]\nname = \"gpt2\"\n",
          .tensors = {{.name = "wte", .shape = {3, 4}, .updates = 7, .aliases = {"head"}},
                      {.name = "table", .shape = {2}, .dtype = DType::kBFloat16, .trainable = false}},
          .files = {{.name = "rank-00000.safetensors",
                     .content = {.size_bytes = kSumBlockBytes + 1, .sums = {1, 0xffffffffffffffffu}},
                     .slices = {{0, 0, 0, 7, 100}, {0, 1, 0, 12, 128}, {1, 0, 0, 2, 176}},
                     .extras = {{"rng/cpu", ElementType::kU8, {5}, 180, 5}}},
                    {.name = "rank-00001.safetensors",
                     .content = {.size_bytes = 200, .sums = {3}},
                     .slices = {{0, 0, 7, 5, 100}},
                     .extras = {}}}};
}

// The text of a manifest with an edited body and a matching hash.
std::string edited(const std::function<void(nlohmann::json&)>& edit) {
  auto whole = nlohmann::json::parse(to_text(example()));
  edit(whole["manifest"]);
  const std::string body = whole["manifest"].dump();
  return "{\"sha256\":\"" + sha256_hex(std::as_bytes(std::span(body))) + "\",\"manifest\":" + body + "}\n";
}

std::string refusal(const std::string& text) {
  return message_of<IoError>([&] { (void)parse_manifest(text, "m"); });
}

TEST(Manifest, ComesBackAsItWas) {
  EXPECT_EQ(parse_manifest(to_text(example()), "m"), example());
  const SavedFile file = example().files[0];
  EXPECT_EQ(parse_saved_file(to_text(file), "m"), file);
}

TEST(Manifest, HasDynamicLossScaleOnly) {
  EXPECT_FALSE(nlohmann::json::parse(to_text(example()))["manifest"].contains("loss_scale"));
  Manifest scaled = example();
  scaled.loss_scale = {.value = 4096, .good_steps = 17};
  EXPECT_EQ(parse_manifest(to_text(scaled), "m"), scaled);
}

TEST(Manifest, IsJsonForEverybody) {
  const auto manifest = nlohmann::json::parse(to_text(example()))["manifest"];
  EXPECT_EQ(manifest["format"], "zero.cpp checkpoint");
  const std::string config = manifest["config"];
  EXPECT_EQ(manifest["config_sha256"], sha256_hex(std::as_bytes(std::span(config))));
}

TEST(Manifest, NoByteChangesUnseen) {
  const std::string text = to_text(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int bit : {0, 5}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_THROW((void)parse_manifest(changed, "m"), IoError) << "byte " << i;
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_THROW((void)parse_manifest(text.substr(0, size), "m"), IoError) << size;
}

TEST(Manifest, RefusesInconsistencies) {
  const auto refused = [](const std::function<void(nlohmann::json&)>& edit, const std::string& reason) {
    const std::string text = refusal(edited(edit));
    EXPECT_NE(text.find(reason), std::string::npos) << reason << " in: " << text;
  };
  EXPECT_NO_THROW((void)parse_manifest(edited([](auto&) {}), "m"));
  refused([](auto& m) { m["version"] = 1; }, "version 2");
  refused([](auto& m) { m.erase("steps"); }, "has no \"steps\"");
  refused([](auto& m) { m["more"] = 1; }, "unknown \"more\"");
  refused([](auto& m) { m["steps"] = -1; }, "not a whole number");
  refused([](auto& m) { m["steps"] = 1.5; }, "not a whole number");
  refused([](auto& m) { m["block_bytes"] = 1024; }, "another block size");
  refused([](auto& m) { m["run"]["step"] = 8; }, "not a text");
  refused([](auto& m) { m["config"] = "[model]\nname = \"mlp\"\n"; }, "not that of its configuration");
  refused([](auto& m) { m["config_sha256"] = 1; }, "not that of its configuration");
  refused([](auto& m) { m["states"] = {"exp_avg"}; }, "first state");
  refused([](auto& m) { m["tensors"][1]["name"] = "wte"; }, "occurs twice");
  refused([](auto& m) { m["tensors"][0]["dtype"] = "F64"; }, "is saved as F64");
  refused([](auto& m) { m["loss_scale"] = 8; }, "");
  refused([](auto& m) { m["loss_scale"] = {{"value", 8}}; }, "has no \"good_steps\"");
  refused([](auto& m) { m["loss_scale"] = {{"value", 0}, {"good_steps", 1}}; }, "above 0");
  refused([](auto& m) { m["loss_scale"] = {{"value", 8}, {"good_steps", -1}}; }, "not a whole number");
  refused([](auto& m) { m["tensors"][0]["shape"] = {1ull << 40, 1ull << 40}; }, "too large");
  refused([](auto& m) { m["tensors"][0]["shape"] = {4, 4}; }, "not covered exactly once");
  refused([](auto& m) { m["files"] = nlohmann::json::array(); }, "names no files");
  refused([](auto& m) { m["files"][1]["name"] = "rank-00000.safetensors"; }, "occurs twice");
  refused([](auto& m) { m["files"][0]["xxh3"].erase(0); }, "1 sums");
  refused([](auto& m) { m["files"][0]["xxh3"][0] = "12"; }, "is not a checksum");
  refused([](auto& m) { m["files"][0]["slices"][0][4] = kSumBlockBytes; }, "beyond its end");
  refused([](auto& m) { m["files"][0]["slices"][0][0] = 2; }, "no tensor");
  refused([](auto& m) { m["files"][0]["slices"][0][1] = 2; }, "no tensor");
  refused([](auto& m) { m["files"][0]["slices"][2][1] = 1; }, "frozen");
  refused([](auto& m) { m["files"][0]["slices"][0][3] = 8; }, "covered exactly once");
  refused([](auto& m) { m["files"][1]["slices"].push_back({0, 0, 7, 5, 120}); }, "covered exactly once");
  refused([](auto& m) { m["files"][0]["slices"].erase(1); }, "covered exactly once");
  refused([](auto& m) { m["files"][0]["slices"][0].push_back(1); }, "five numbers");
  refused([](auto& m) { m["files"][0]["slices"].push_back({0, 0, 3, 0, 100}); }, "holds nothing");
  refused([](auto& m) { m["states"] = std::vector<std::string>(1025, "parameter"); }, "more than 1024");
  refused(
      [](auto& m) {
        m["files"][0]["extras"][0]["shape"] = {0};
        m["files"][0]["extras"][0]["bytes"] = 1ull << 61;
      },
      "bytes of its shape");
  refused([](auto& m) { m["files"][0]["extras"][0]["bytes"] = 4; }, "bytes of its shape");
  refused([](auto& m) { m["files"][0]["extras"][0]["offset"] = kSumBlockBytes; }, "beyond its end");
}

TEST(Manifest, NamesNothingOutsideItsFolder) {
  for (const char* const name : {"../x", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "a b", "x\n"})
    EXPECT_NE(refusal(edited([&](auto& m) { m["files"][0]["name"] = name; })).find("not the name of a file"),
              std::string::npos)
        << name;
}

TEST(Manifest, RefusesDuplicateKeys) {
  std::string body = nlohmann::json::parse(to_text(example()))["manifest"].dump();
  body.insert(1, "\"steps\":9,");
  const std::string text =
      "{\"sha256\":\"" + sha256_hex(std::as_bytes(std::span(body))) + "\",\"manifest\":" + body + "}\n";
  EXPECT_NE(refusal(text).find("occurs twice"), std::string::npos);
}

TEST(Manifest, DeepNestingEndsEarly) {
  const std::string deep(1000, '[');
  EXPECT_NE(message_of<IoError>([&] { (void)parse_saved_file(deep, "m"); }).find("nested"), std::string::npos);
}

}  // namespace
}  // namespace zero
