// outer_memory(), ExchangeChunks: the memory of an outer step, and the messages in it, which are exchanged in chunks.
//
//   Allocation sent = outer_memory(comm, chunks.copies * chunks.message);
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"

namespace zero {

// Collective over the ranks that share the memory. Empty for 0 bytes.
inline Allocation outer_memory(Communicator& comm, std::int64_t bytes) {
  return bytes == 0 ? Allocation() : comm.allocate(static_cast<std::size_t>(bytes));
}

inline float* floats(const Allocation& memory) {
  return reinterpret_cast<float*>(memory.data());
}

// An outer step accesses its memory in kReduce.
inline void zero_floats(Device& device, float* values, std::int64_t numel) {
  device.fill(Lane::kReduce, {reinterpret_cast<std::byte*>(values), static_cast<std::size_t>(numel) * sizeof(float)},
              std::byte{0});
}
inline void copy_floats(Device& device, const float* from, float* to, std::int64_t numel) {
  const std::size_t bytes = static_cast<std::size_t>(numel) * sizeof(float);
  device.copy(Lane::kReduce, {reinterpret_cast<std::byte*>(to), bytes},
              {reinterpret_cast<const std::byte*>(from), bytes});
}

// ExchangeChunks: messages of equal size, one for each copy, that are exchanged in chunks.
//
//   const ExchangeChunks chunks{.message = 1000, .copies = 2, .number = 4};
//   chunks.put(device, memory, /*copy=*/1, /*at=*/240, block);      // from byte 240 of copy 1's message
//   comm.all_to_all(chunks.of(sent, 0), chunks.of(came, 0), tag);
//   chunks.get(device, memory, 1, 240, block);
//
// Memory holds chunk after chunk, and in each chunk the part of every copy's message, so one collective carries one
// chunk of all messages. Local.
struct ExchangeChunks {
  std::int64_t message = 0;  // bytes
  int copies = 1;
  int number = 1;

  // Returns the first byte of a chunk in each message, at a whole float.
  std::int64_t begin(int chunk) const { return chunk == number ? message : message * chunk / number / 4 * 4; }
  std::int64_t size(int chunk) const { return begin(chunk + 1) - begin(chunk); }
  // Returns a chunk of all copies' messages.
  std::span<std::byte> of(std::byte* memory, int chunk) const {
    return {memory + copies * begin(chunk), static_cast<std::size_t>(copies * size(chunk))};
  }

  void put(Device& device, std::byte* memory, int copy, std::int64_t at, std::span<const std::byte> bytes) const {
    each_piece(copy, at, bytes.size(), [&](std::int64_t place, std::size_t first, std::size_t size) {
      device.copy(Lane::kReduce, {memory + place, size}, bytes.subspan(first, size));
    });
  }
  void get(Device& device, const std::byte* memory, int copy, std::int64_t at, std::span<std::byte> bytes) const {
    each_piece(copy, at, bytes.size(), [&](std::int64_t place, std::size_t first, std::size_t size) {
      device.copy(Lane::kReduce, bytes.subspan(first, size), {memory + place, size});
    });
  }

 private:
  template <typename Use>
  void each_piece(int copy, std::int64_t at, std::size_t bytes, Use use) const {
    std::size_t done = 0;
    for (int chunk = 0; chunk < number; ++chunk) {
      const std::int64_t from = at + static_cast<std::int64_t>(done), end = begin(chunk + 1);
      if (from >= end || done == bytes) continue;
      const std::size_t size = std::min(bytes - done, static_cast<std::size_t>(end - from));
      use(copies * begin(chunk) + copy * this->size(chunk) + from - begin(chunk), done, size);
      done += size;
    }
  }
};

}  // namespace zero
