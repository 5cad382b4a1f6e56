// TrainFaultTest: fault tests of `zero train`. It has the command for a small GPT-2, and a folder for its runs.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/faults/fault_test.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {

class TrainFaultTest : public FaultTest {
 protected:
  using Settings = std::vector<std::pair<std::string, std::string>>;

  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  }

  // The command line: `flags`, the model's and the data's keys, `settings`, then `more`. Later keys win.
  std::vector<std::string> train(const std::string& run, const std::vector<std::string>& flags,
                                 const Settings& settings, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command{built::kCommand, "train"};
    command.insert(command.end(), flags.begin(), flags.end());
    Settings all{{"model.layers", "1"},
                 {"model.width", "32"},
                 {"model.heads", "2"},
                 {"model.context", "32"},
                 {"data.path", std::string(built::kSourceFolder) + "/examples/shakespeare/input.txt"},
                 {"run.dir", folder_ / run}};
    all.insert(all.end(), settings.begin(), settings.end());
    for (const auto& [key, value] : all) {
      command.push_back("--" + key);
      command.push_back(value);
    }
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  // Returns a run that was struck before its end. `strikes` returns whether it was. If the strike came too late, the
  // run is repeated.
  template <typename Strikes>
  std::unique_ptr<WatchedCommand> struck(const std::string& run, const std::vector<std::string>& words,
                                         const Strikes& strikes, const WatchedCommand::Variables& environment = {}) {
    constexpr int kTrials = 5;
    std::unique_ptr<WatchedCommand> command;
    for (int trial = 0; trial < kTrials; ++trial) {
      command.reset();
      std::filesystem::remove_all(folder_ / run);
      command = std::make_unique<WatchedCommand>(words, environment);
      if (strikes(*command) || testing::Test::HasFailure()) return command;
    }
    ADD_FAILURE() << "the run ended each time before it was struck: " << command->text();
    return command;
  }

  // Discarded if there is no report.
  nlohmann::json report_of(const std::string& run) const {
    std::ifstream file(folder_ / run / "report.json");
    return nlohmann::json::parse(file, nullptr, false);
  }

  const TemporaryFolder folder_;
};

}  // namespace zero
