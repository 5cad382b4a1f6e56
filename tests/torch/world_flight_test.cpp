#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include "zero/comm/flight/file.h"
#include "zero/comm/transport/world.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

TEST(WorldFlight, OmitsLibtorchsStackTrace) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(2);
  worlds[1].keep_flight_in(folder.path());
  try {
    TORCH_CHECK(false, "index out of range in self");
  } catch (const c10::Error& error) {
    ASSERT_NE(std::string(error.what()).find("most recent call first"), std::string::npos)
        << "without a backtrace the test shows nothing";
    worlds[1].write_flight(error);
  }
  const FlightFolder found = read_flight_folder(folder.path());
  ASSERT_EQ(found.records.size(), 1U);
  EXPECT_EQ(found.records[0].cause.reason, "index out of range in self");
  EXPECT_EQ(found.records[0].cause.blamed, 1);
}

}  // namespace
}  // namespace zero
