#include "tests/faults/served_log.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// The launcher died after the last step, and the same command only ended the run: the checkpoint had the sums.
TEST(ServedLog, AfterLastStepEarlierOnesCount) {
  const TemporaryFolder folder;
  const std::string path = folder / "pushes.log";
  std::ofstream(path)
      << "begin 0 format 3 15265578\npush 0 0\nend 1 e8e48d6e\nresumed 1 format 3 87bc10cf\nend 1 516c4f07\n";
  const nlohmann::json report{
      {"served",
       {{"gradients_of_workers", nlohmann::json::array({1})}, {"updates", 1}, {"dropped", 0}, {"replaced", 0}}}};
  const ServedLog log(path, 1);
  log.expect_each_gradient_counted(report, 1);
  log.expect_quorum_counted(report, 1, 1);
}

}  // namespace
}  // namespace zero
