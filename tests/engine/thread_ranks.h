// on_ranks(): runs one body on every rank of an in_process world, each in its own thread.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"

namespace zero {

// Returns for each rank "" if the body returned, else the what() of its exception. A rank's communicator ends with its
// body.
inline std::vector<std::string> ends_of_ranks(int world, const std::function<void(Communicator&)>& body,
                                              std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  auto ranks = make_in_process(world, timeout);
  std::vector<std::string> ends(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    threads.emplace_back([&ends, &body, comm = std::move(rank)]() mutable {
      const auto index = static_cast<std::size_t>(comm->rank());
      try {
        body(*comm);
      } catch (const std::exception& error) {
        ends[index] = error.what();
      }
      comm.reset();
    });
  }
  for (auto& thread : threads) thread.join();
  return ends;
}

// Throws Error if a rank's body threw.
inline void on_ranks(int world, const std::function<void(Communicator&)>& body) {
  for (const std::string& end : ends_of_ranks(world, body)) {
    if (!end.empty()) throw Error(end);
  }
}

}  // namespace zero
