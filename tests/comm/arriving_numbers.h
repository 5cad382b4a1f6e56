// Exchanges of numbers between ranks that wait for the first of several messages. They run over any transport, and over
// links that a test made.
//
//   run_over(network, 3, limit, the_first_message_ends_the_wait);
//   expect_world(world(3), the_first_message_ends_the_wait);
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include <gtest/gtest.h>

#include "zero/comm/board/arrivals.h"

namespace zero {

inline std::span<std::byte> bytes_of_number(int& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

inline void send_number(Communicator& comm, int value, int to) {
  send_message(comm, bytes_of_number(value), to);
}

inline int take_number(Communicator& comm, int from) {
  int value = 0;
  Work work = comm.receive(bytes_of_number(value), from, {.control = true});
  await_message(comm, work, from);
  return value;
}

// For three ranks. Rank 0 first asks for rank 1's message, but rank 2 sends first.
inline void the_first_message_ends_the_wait(Communicator& comm) {
  if (comm.rank() == 2) {
    send_number(comm, 22, 0);
    EXPECT_EQ(take_number(comm, 0), 5);
    return;
  }
  if (comm.rank() == 1) {
    EXPECT_EQ(take_number(comm, 0), 5);
    return send_number(comm, 11, 0);
  }
  int first = 0, second = 0;
  Work one = comm.receive(bytes_of_number(first), 1, {}), two = comm.receive(bytes_of_number(second), 2, {});
  EXPECT_TRUE(comm.arrivals()->await([&] { return one.try_complete() || two.try_complete(); }));
  EXPECT_TRUE(two.try_complete());
  EXPECT_FALSE(one.try_complete());
  two.wait();
  EXPECT_EQ(second, 22);
  for (const int rank : {1, 2}) send_number(comm, 5, rank);
  one.wait();
  EXPECT_EQ(first, 11);
}

// For two ranks.
inline void a_limit_ends_the_wait_and_nothing_else(Communicator& comm) {
  if (comm.rank() == 1) {
    EXPECT_EQ(take_number(comm, 0), 1);
    return send_number(comm, 2, 0);
  }
  int value = 0;
  Work work = comm.receive(bytes_of_number(value), 1, {});
  EXPECT_FALSE(comm.arrivals()->await([&] { return work.try_complete(); }, std::chrono::milliseconds(1)));
  send_number(comm, 1, 1);
  await_message(comm, work, 1);
  EXPECT_EQ(value, 2);
}

}  // namespace zero
