// Ranks as threads: run_ranks(2, [](World& world) { ... }) calls the body on each rank, and throws the error of the
// first failing rank.
#pragma once

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "zero/base/error/error.h"
#include "zero/comm/transport/world.h"

namespace zero {

template <typename Body>
void run_ranks(int num_ranks, Body body) {
  std::vector<World> worlds = World::in_process(num_ranks, {.timeout = std::chrono::milliseconds(20000)});
  std::vector<std::exception_ptr> errors(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank) {
    threads.emplace_back([&, rank] {
      World world = std::move(worlds[rank]);
      try {
        body(world);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace zero
