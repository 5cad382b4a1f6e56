#include "app/config/resolved.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "app/config/load.h"
#include "app/config/options/option.h"
#include "app/config/rules/fit_to_world.h"
#include "app/config/toml_source.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

Config read_back(const Config& config) {
  Config out;
  for (const auto& setting : parse_toml(resolved_toml(config), "config.toml")) {
    set_option(out, *find_option(setting.name), setting);
  }
  return out;
}

template <typename... Each>
struct Cases : Each... {
  using Each::operator()...;
};
template <typename... Each>
Cases(Each...) -> Cases<Each...>;

// Sets a valid value of the row's type that differs from the default.
void change(Config& config, const Option& option) {
  struct Change {
    const Option& option;
    void operator()(bool& member) const { member = !member; }
    void operator()(std::int64_t& member) const { member = member == 3 ? 2 : member + 1; }
    void operator()(double& member) const { member = member / 3 + 0.017; }
    void operator()(std::string& member) const { member = "quo\"te \\ \xc3\xa9 \n"; }
    void operator()(std::filesystem::path& member) const { member = "quo\"te"; }
    void operator()(std::vector<std::int64_t>& member) const { member = {3, 5, 7, 9}; }
    void operator()(std::array<double, 2>& member) const { member = {1.0 / 3, 0}; }
    void operator()(std::chrono::milliseconds& member) const { member = std::chrono::milliseconds(1234); }
    void operator()(Interval& member) const { member = {.steps = 17}; }
    void operator()(Validation& member) const { member = DataFiles("val.bin"); }
    void operator()(DataFiles& member) const { member = {{"a b.bin", "c.bin"}}; }
    void operator()(std::vector<std::string>& member) const { member = {"/a b", "\"c\""}; }
    void operator()(std::vector<GroupKeys>& member) const {
      member = {{.parameters = "*.\"b", .lr_scale = 1.0 / 3}, {.parameters = "h", .weight_decay = 0, .rule = "adamw"}};
    }
    void operator()(TierFractions& member) const { member = {.host = 1.0 / 3, .disk = 0.5}; }
    void operator()(LossScaleChoice& member) const { member = {.fixed = 1.0 / 3}; }
    void operator()(CutChoice& member) const { member = {.measured = false, .units = {"h.2", "a \"b"}}; }
    void operator()(GroupChoice& member) const { member = {.ranks = 2, .automatic = false}; }
    void operator()(Names& member) const { member.names = {"a b", "\"c\""}; }
    void operator()(std::vector<double>& member) const { member = {1.0 / 3, 2}; }
    void operator()(ImageSize& member) const { member = {.height = 24, .width = 32}; }
    void operator()(std::optional<bool>& member) const { member = false; }
    void operator()(WeightsChoice& member) const { member = {.named = {2, 1, 1}}; }
    void operator()(ShareChoice& member) const { member = {.measured = false, .samples = {6, 2}}; }
    void operator()(MemoryBudget& member) const { member = {.kind = MemoryBudget::Kind::kBytes, .bytes = 123456789}; }
  };
  std::visit(Cases{[&]<typename T>(OptionAccess<T> access) { Change{option}(access(config)); },
                   [&]<typename T>(const Converted<T>& access) {
                     T value = access.get(config);
                     Change{option}(value);
                     access.set(config, value);
                   },
                   [&](const WordAccess& access) {
                     const bool is_last = access.get(config) == access.words.back();
                     access.set(config, is_last ? access.words.front() : access.words.back());
                   }},
             option.field);
}

TEST(Resolved, TheDefaultsReadBack) {
  EXPECT_EQ(resolved_toml(read_back(Config{})), resolved_toml(Config{}));
}

// Each change also changes the hash.
TEST(Resolved, EveryKeyReadsBackAndRehashes) {
  for (const auto& option : options()) {
    Config config;
    change(config, option);
    ASSERT_NE(config, Config{}) << option.name;
    EXPECT_EQ(read_back(config), config) << option.name;
    EXPECT_NE(config_hash(config), config_hash(Config{})) << option.name;
  }
}

TEST(Resolved, ARowChangesOnlyItsKey) {
  const Config defaults;
  for (const auto& option : options()) {
    Config config;
    change(config, option);
    for (const auto& other : options())
      EXPECT_EQ(get_option(config, other) == get_option(defaults, other), other.name != option.name)
          << option.name << " " << other.name;
  }
}

// For rows of names, and rows of enums with a table of words.
TEST(Resolved, EveryWordReadsBack) {
  for (const auto& option : options()) {
    for (const std::string_view word : option.choices()) {
      Config config;
      set_option(config, option, {std::string(option.name), Value(std::string(word)), std::string(word), "", false});
      EXPECT_EQ(word_of(config, option.name), word) << option.name;
      EXPECT_EQ(get_option(config, option), Value(std::string(word))) << option.name;
    }
  }
}

TEST(Resolved, LearningRatesReadBackExactly) {
  rc::check([] {
    Config config;
    config.optimizer.lr = *rc::gen::suchThat(rc::gen::arbitrary<double>(), [](double lr) { return lr >= 0; });
    RC_ASSERT(read_back(config) == config);
  });
}

TEST(Resolved, RunFileLoadsTheSameConfiguration) {
  const TemporaryFolder scratch;
  LoadedConfig loaded = load_config({.file = {},
                                     .overrides = {{"train.steps", Value(std::int64_t{5}), "5", "command line", true}},
                                     .environment = {},
                                     .check_files = false});
  fit_to_world(loaded, 2);
  const auto file = scratch.write("config.toml", resolved_toml(loaded.config));
  LoadedConfig again = load_config({.file = file, .overrides = {}, .environment = {}, .check_files = false});
  fit_to_world(again, 2);
  EXPECT_EQ(again.config, loaded.config);
}

}  // namespace
}  // namespace zero
