// The two tables of defaults: fixed values that are always tested, and a comparison with the installed packages.
#include "app/config/deepspeed/deepspeed_defaults.h"

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/python_with.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Json = nlohmann::json;

// A Python that also finds DeepSpeed's sources in the folder ZERO_TEST_DEEPSPEED. DeepSpeed has its own folder, because
// other packages import it if they find it.
std::string python_of_defaults() {
  return R"(PYTHONPATH="${ZERO_TEST_DEEPSPEED-}${PYTHONPATH:+:$PYTHONPATH}" )" + test_python();
}

// Values that are no numbers, and that branches of convert_deepspeed() assume: by the names of the script, as JSON.
constexpr std::array kAssumed{
    std::pair("optimizer.params.adam_w_mode", "true"),   // "Adam" becomes adamw
    std::pair("sgd.nesterov", "false"),                  // optimizer.nesterov is left out
    std::pair("bf16.check_grad_overflow", "true"),       // health.non_finite does the same
    std::pair("data_types.grad_accum_dtype", "null"),    // train.reduce_dtype is left out
    std::pair("WarmupLR.warmup_max_lr", "null"),         // the optimizer's rate
    std::pair("WarmupLR.warmup_type", "\"log\""),        // reported, because ours is linear
    std::pair("WarmupDecayLR.warmup_type", "\"log\""),   // the same
    std::pair("WarmupCosineLR.warmup_type", "\"log\""),  // the same
    std::pair("muon.ns_method", "\"gram\""),             // reported, because ours is the standard one
};

// The script's output for a package; null if it cannot be parsed.
Json printed_of(const std::string& python, const std::string& package) {
  const std::string command =
      fmt::format("{} {}/tests/config/deepspeed_defaults.py {}", python, built::kSourceFolder, package);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  for (std::size_t read = 0; pipe && (read = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    text.append(buffer.data(), read);
  return Json::parse(text, nullptr, false);
}

// find_spec() instead of an import, because an import of DeepSpeed needs more than its own files.
std::string python_that_finds(const std::string& package) {
  const std::string python = python_of_defaults();
  const std::string probe =
      fmt::format("{} -c 'import importlib.util as u, sys; sys.exit(u.find_spec(\"{}\") is None)' >/dev/null 2>&1",
                  python, package);
  return std::system(probe.c_str()) == 0 ? python : "";
}

TEST(DeepSpeedDefaults, ValuesOfVersion0198) {
  EXPECT_EQ(deepspeed_default("gradient_clipping"), 1.0);
  EXPECT_EQ(deepspeed_default("lion.beta1"), 0.9);
  EXPECT_EQ(deepspeed_default("lion.beta2"), 0.999);
  EXPECT_EQ(deepspeed_default("torch_adamw.weight_decay"), 0.01);
  EXPECT_EQ(deepspeed_default("adam.weight_decay"), 0);
  EXPECT_EQ(deepspeed_default("muon.beta2"), 0.95);
  EXPECT_EQ(deepspeed_default("muon.eps"), 1e-10);
  EXPECT_EQ(deepspeed_default("fp16.hysteresis"), 2);
  EXPECT_EQ(deepspeed_default("WarmupDecayLR.warmup_max_lr"), 1e-3);
}

TEST(DeepSpeedDefaults, AreThoseOfTheInstalledPackage) {
  const std::string python = python_that_finds("deepspeed");
  if (python.empty()) GTEST_SKIP() << test_python() << " has no deepspeed; ZERO_TEST_DEEPSPEED may name its folder";
  const Json theirs = printed_of(python, "deepspeed");
  ASSERT_TRUE(theirs.is_object());
  if (theirs.at("version") != "0.19.8")
    GTEST_SKIP() << "the table is of 0.19.8, and installed is " << theirs.at("version");
  std::vector<std::string_view> unknown;
  for (const DeepSpeedDefault& ours : deepspeed_defaults()) {
    const auto found = theirs.find(std::string(ours.name));
    if (found == theirs.end()) {
      unknown.push_back(ours.name);
    } else {
      EXPECT_EQ(found->get<double>(), ours.value) << ours.name;
    }
  }
  for (const auto& [name, json] : kAssumed) {
    const auto found = theirs.find(std::string(name));
    if (found == theirs.end()) {
      unknown.emplace_back(name);
    } else {
      EXPECT_EQ(*found, Json::parse(json)) << name;
    }
  }
  for (const std::string_view name : unknown)
    EXPECT_TRUE(name.starts_with("torch_") || name.starts_with("sgd.")) << name << " is in no source";
  if (!unknown.empty())
    GTEST_SKIP() << test_python() << " has no torch: not compared are " << fmt::format("{}", fmt::join(unknown, ", "));
}

TEST(TrainerDefaults, ValuesOfVersion524) {
  ASSERT_NE(trainer_default("optimizer.params.lr"), nullptr);
  EXPECT_EQ(trainer_default("optimizer.params.lr")->json, "5e-5");
  EXPECT_EQ(trainer_default("optimizer.params.betas")->json, "[0.9, 0.999]");
  EXPECT_EQ(trainer_default("optimizer.params.weight_decay")->json, "0.0");
  EXPECT_EQ(trainer_default("zero_optimization.stage"), nullptr);
}

TEST(TrainerDefaults, AreThoseOfTheInstalledPackage) {
  const std::string python = python_that_finds("transformers");
  if (python.empty()) GTEST_SKIP() << test_python() << " has no transformers; ZERO_TEST_PYTHON may name another";
  const Json theirs = printed_of(python, "transformers");
  ASSERT_TRUE(theirs.is_object());
  for (const TrainerDefault& ours : trainer_defaults()) {
    const Json value = Json::parse(ours.json);
    if (value.is_array()) {
      EXPECT_EQ(value, Json::array({theirs.at("adam_beta1"), theirs.at("adam_beta2")})) << ours.name;
    } else {
      EXPECT_EQ(value, theirs.at(std::string(ours.field))) << ours.name;
    }
  }
  // A file without an optimizer or a scheduler gets these.
  EXPECT_EQ(theirs.at("lr_scheduler_type").get<std::string>(), "linear");
  ASSERT_FALSE(theirs.at("optim").empty());
  for (const Json& name : theirs.at("optim")) EXPECT_TRUE(name.get<std::string>().starts_with("adamw_torch")) << name;
}

}  // namespace
}  // namespace zero
