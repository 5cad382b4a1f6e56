#include "zero/comm/collectives.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "zero/base/error/check.h"
#include "zero/comm/rank_sum.h"

namespace zero {

void all_reduce(Communicator& comm, std::span<float> data, CommTag tag) {
  if (comm.world() == 1) return;
  const std::size_t world = comm.world(), rank = comm.rank();
  const std::size_t block = data.size() / world;
  const std::span<float> even = data.first(block * world);
  if (block > 0) {
    const std::span<float> own = even.subspan(rank * block, block);
    comm.reduce_scatter({.in = std::as_bytes(even), .out = std::as_writable_bytes(own)}, tag).wait();
    comm.drain();  // peers may still read the blocks that the gather overwrites
    all_gather(comm, std::as_bytes(own), std::as_writable_bytes(even), tag);
  }
  // The rest is less than one element for each rank, so every rank sums it.
  if (const std::span<float> rest = data.subspan(even.size()); !rest.empty()) {
    std::vector<float> parts(rest.size() * world);
    all_gather(comm, std::as_bytes(rest), std::as_writable_bytes(std::span(parts)), tag);
    std::vector<const std::byte*> in(world);
    for (std::size_t r = 0; r < world; ++r) in[r] = reinterpret_cast<const std::byte*>(&parts[r * rest.size()]);
    sum_ranks({.in = in, .out = reinterpret_cast<std::byte*>(rest.data()), .numel = std::ssize(rest)}, nullptr);
  }
}

void all_gather(Communicator& comm, std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  comm.all_gather(in, out, tag).wait();
  comm.drain();
}

void broadcast(Communicator& comm, std::span<std::byte> data, int root, CommTag tag) {
  comm.broadcast(data, root, tag).wait();
  comm.drain();
}

std::vector<std::int64_t> all_gather_value(Communicator& comm, std::int64_t value, CommTag tag) {
  std::vector<std::int64_t> values(comm.world());
  all_gather(comm, std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(values)), tag);
  return values;
}

std::int64_t all_reduce_min(Communicator& comm, std::int64_t value, CommTag tag) {
  return std::ranges::min(all_gather_value(comm, value, tag));
}

std::int64_t all_reduce_max(Communicator& comm, std::int64_t value, CommTag tag) {
  return std::ranges::max(all_gather_value(comm, value, tag));
}

// Texts differ in length but messages do not, so texts are padded with zeros.
std::vector<std::string> all_gather_text(Communicator& comm, std::string_view text, CommTag tag) {
  const auto sizes = all_gather_value(comm, std::ssize(text), tag);
  const auto longest = static_cast<std::size_t>(std::ranges::max(sizes));
  if (longest == 0) return std::vector<std::string>(sizes.size());
  std::string mine(text), all(longest * sizes.size(), '\0');
  mine.resize(longest);
  all_gather(comm, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), tag);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    texts.push_back(all.substr(rank * longest, static_cast<std::size_t>(sizes[rank])));
  return texts;
}

std::vector<std::vector<std::int64_t>> all_gather_numbers(Communicator& comm, std::span<const std::int64_t> numbers,
                                                          CommTag tag) {
  const auto bytes = std::as_bytes(numbers);
  std::vector<std::vector<std::int64_t>> of_ranks;
  for (const std::string& text :
       all_gather_text(comm, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, tag)) {
    std::vector<std::int64_t>& of_rank = of_ranks.emplace_back(text.size() / sizeof(std::int64_t));
    if (!of_rank.empty()) std::memcpy(of_rank.data(), text.data(), text.size());
  }
  return of_ranks;
}

std::string broadcast_text(Communicator& comm, std::string_view text, CommTag tag) {
  auto size = std::ssize(text);
  broadcast(comm, std::as_writable_bytes(std::span(&size, 1)), 0, tag);
  std::string data(text);
  data.resize(static_cast<std::size_t>(size));
  if (size > 0) broadcast(comm, std::as_writable_bytes(std::span(data)), 0, tag);
  return data;
}

}  // namespace zero
