// Runs one body on every rank of a world, as threads or as processes, and says how each rank ended.
//
//   for (const auto& end : run_world({"shared_memory", 4}, [](Communicator& comm) { ... EXPECT_EQ(...); ... }))
//     EXPECT_EQ(end, "");
//
// A world that a launcher started (ZERO_WORLD_TRANSPORT is set; see launched_test.cpp) runs the body on this process's
// rank, on one communicator for all tests, and knows its own end only.
//
// An end is "" for a rank that returned, what() of what it threw, "failed expectations" (which the rank has printed),
// or "signal 9". Ranks of in_process, and of recorded (in_process behind a RecordedCommunicator), are threads; all
// others are forked, and killed when the first of them has been gone for longer than the patience: a test that hangs
// fails. Where not all of these have met within the timeout, they are started anew: their body has not run.
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

// The transport of a world that a launcher started; empty: the tests start their ranks themselves.
std::string launched_transport();
int launched_world();

// A name that no other run on this machine has.
std::string unique_run_id();

// A port that nobody listens on just now.
int free_port();

}  // namespace zero
