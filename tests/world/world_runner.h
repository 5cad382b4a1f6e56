// run_world(): runs one body on every rank of a world, as threads or processes, and returns each rank's end.
//
//   for (const auto& end : run_world({"shared_memory", 4}, [](Communicator& comm) { ... EXPECT_EQ(...); ... }))
//     EXPECT_EQ(end, "");
//
// In a world that a launcher started (ZERO_WORLD_TRANSPORT is set, see launched_test.cpp), it runs the body on this
// process's rank. All tests share one communicator, and only this rank's end is known.
//
// An end is "" for a rank that returned, or what() of its exception. It is "failed expectations" if expectations
// failed, which the rank has printed, or "signal 9". Ranks of in_process and recorded (in_process inside a
// RecordedCommunicator) are threads. All other ranks are forked. After the first of them has ended, the rest are killed
// when `patience` has passed, so a test that hangs fails. If the ranks have not met within the timeout, all are started
// again, because their body has not run.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

struct World {
  std::string transport;
  int size = 1;
  std::chrono::milliseconds timeout{20000};
  std::chrono::milliseconds patience{30000};
};

std::vector<std::string> run_world(const World& world, const std::function<void(Communicator&)>& body);

// Expects every rank to return.
void expect_world(const World& world, const std::function<void(Communicator&)>& body);

// The transport of a world that a launcher started. Empty if the tests start their ranks themselves.
std::string launched_transport();
int launched_world();

// A name that no other run on this machine has.
std::string unique_run_id();

// A port without a listener.
int free_port();

}  // namespace zero
