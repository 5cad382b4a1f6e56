// The functions of libnccl.so.2 that the plug-in calls, for machines without a GPU.
#include "tests/comm/transport/fake_nccl/fake_nccl.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "zero/base/numbers/dtype.h"

#include "tests/comm/transport/fake_gpu.h"

struct ncclComm;

namespace {

enum Result { kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7 };
struct UniqueId {
  char internal[128];
};

zero::FakeNccl state;

// The k-th message from one rank to another.
struct Message {
  const void* sent = nullptr;
  std::size_t bytes = 0;
  bool received = false;
};

struct World {
  std::mutex mutex;
  int num_joined = 0;
  std::map<std::tuple<int, int, int>, Message> messages;  // by sender, receiver and number
};

std::mutex worlds_mutex;
std::map<std::string, std::shared_ptr<World>> worlds;

// State of the calling thread between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<std::tuple<ncclComm*, zero::FakeStream*, std::function<bool()>>> messages;
};
thread_local Group group;
thread_local std::string last_error;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0, num_ranks = 0;
  bool refused = false;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::map<std::pair<int, bool>, int> numbers;  // of messages, by peer and direction
};

namespace {

constexpr int kFloat32 = 7, kBFloat16 = 9, kSum = 0;

float element_at(const char* data, std::size_t index, int type) {
  if (type == kFloat32) return reinterpret_cast<const float*>(data)[index];
  return zero::to_float(reinterpret_cast<const zero::BFloat16Bits*>(data)[index]);
}
void add_to(char* sum, const char* data, std::size_t numel, int type) {
  for (std::size_t i = 0; i < numel; ++i) {
    const float value = element_at(sum, i, type) + element_at(data, i, type);
    if (type == kFloat32)
      reinterpret_cast<float*>(sum)[i] = value;
    else
      reinterpret_cast<zero::BFloat16Bits*>(sum)[i] = zero::to_bfloat16(value);
  }
}

// A piece that ends when both sides have posted. It keeps the value that `stuck` has now.
std::function<bool()> piece_of(ncclComm* comm, int from, int to, const void* sent, void* received, std::size_t bytes) {
  const bool sends = from == comm->rank;
  const int number = comm->numbers[{sends ? to : from, sends}]++;
  return [world = comm->world, aborted = comm->aborted, key = std::tuple(from, to, number), sends, sent, received,
          bytes, stuck = state.stuck.load()] {
    if (*aborted) return true;
    if (stuck) return false;
    const std::lock_guard guard(world->mutex);
    Message& message = world->messages[key];
    if (sends) {
      if (message.sent == nullptr) message = {sent, bytes, false};
      return message.received;
    }
    if (message.sent == nullptr) return false;
    if (!message.received) std::memcpy(received, message.sent, std::min(bytes, message.bytes));
    message.received = true;
    return true;
  };
}

// The pieces of one group progress together.
void queue(zero::FakeStream* stream, std::vector<std::function<bool()>> pieces) {
  stream->push([pieces, done = std::make_shared<std::vector<bool>>(pieces.size(), false)] {
    bool all = true;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!(*done)[i]) (*done)[i] = pieces[i]();
      all = all && (*done)[i];
    }
    return all;
  });
}

Result result_of(const ncclComm& comm) {
  if (comm.refused) return kInvalidUsage;
  if (state.failing == comm.rank) return kRemoteError;
  const std::lock_guard guard(comm.world->mutex);
  return comm.world->num_joined < comm.num_ranks || state.busy ? kInProgress : kSuccess;
}

}  // namespace

extern "C" {

zero::FakeNccl* fake_nccl_state() {
  return &state;
}

Result ncclGetVersion(int* version) {
  *version = state.version;
  return kSuccess;
}
const char* ncclGetErrorString(Result result) {
  return result == kInvalidUsage  ? "invalid usage (run with NCCL_DEBUG=WARN for details)"
         : result == kRemoteError ? "remote process exited or there was a network error"
                                  : "another error";
}
const char* ncclGetLastError(ncclComm*) {
  return last_error.c_str();
}

Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> number{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "world %d", number++);
  return kSuccess;
}

Result ncclCommInitRankConfig(ncclComm** comm, int num_ranks, UniqueId id, int rank, void* config) {
  int blocking = 1;
  std::memcpy(&blocking, static_cast<const char*>(config) + sizeof(std::size_t) + 2 * sizeof(unsigned),
              sizeof blocking);
  if (blocking != 0) return kInvalidArgument;
  last_error.clear();
  auto made = std::make_unique<ncclComm>();
  made->rank = rank;
  made->num_ranks = num_ranks;
  {
    const std::lock_guard guard(worlds_mutex);
    std::shared_ptr<World>& world = worlds[id.internal];
    if (world == nullptr) world = std::make_shared<World>();
    made->world = world;
  }
  if (state.duplicate_gpu) {
    made->refused = true;
    last_error = "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000\n";
  }
  if (state.absent != rank) {
    const std::lock_guard guard(made->world->mutex);
    ++made->world->num_joined;
  }
  ++state.num_comms;
  *comm = made.release();
  return kInProgress;
}
Result ncclCommAbort(ncclComm* comm) {
  *comm->aborted = true;
  {  // the rank's memory may be freed
    const std::lock_guard guard(comm->world->mutex);
    for (auto& [key, message] : comm->world->messages)
      if (std::get<0>(key) == comm->rank && !message.received) message.sent = nullptr;
  }
  --state.num_comms;
  ++state.num_aborted;
  delete comm;
  return kSuccess;
}
Result ncclCommGetAsyncError(ncclComm* comm, Result* result) {
  *result = result_of(*comm);
  return kSuccess;
}

Result ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}
Result ncclGroupEnd() {
  if (--group.depth > 0 || group.messages.empty()) return kSuccess;
  std::vector<std::function<bool()>> pieces;
  auto* const comm = std::get<0>(group.messages.front());
  auto* const stream = std::get<1>(group.messages.front());
  for (auto& message : group.messages) pieces.push_back(std::move(std::get<2>(message)));
  group.messages.clear();
  queue(stream, std::move(pieces));
  return result_of(*comm);
}
Result ncclSend(const void* data, std::size_t bytes, int, int peer, ncclComm* comm, void* stream) {
  if (group.depth == 0 || peer == comm->rank) return kInvalidUsage;
  group.messages.emplace_back(comm, static_cast<zero::FakeStream*>(stream),
                              piece_of(comm, comm->rank, peer, data, nullptr, bytes));
  return kSuccess;
}
Result ncclRecv(void* data, std::size_t bytes, int, int peer, ncclComm* comm, void* stream) {
  if (group.depth == 0 || peer == comm->rank) return kInvalidUsage;
  group.messages.emplace_back(comm, static_cast<zero::FakeStream*>(stream),
                              piece_of(comm, peer, comm->rank, nullptr, data, bytes));
  return kSuccess;
}
// Adds along a ring: the rank after the block's owner begins, and the owner adds last. Each sum is rounded to the
// elements' type.
Result ncclReduceScatter(const void* in, void* out, std::size_t numel, int type, int operation, ncclComm* comm,
                         void* stream) {
  if (operation != kSum || (type != kFloat32 && type != kBFloat16)) return kInvalidArgument;
  const std::size_t bytes = numel * (type == kFloat32 ? sizeof(float) : sizeof(zero::BFloat16Bits));
  const auto* const blocks = static_cast<const char*>(in);
  const int rank = comm->rank, ranks = comm->num_ranks;
  const auto came = std::make_shared<std::vector<std::vector<char>>>();
  std::vector<std::function<bool()>> pieces;
  for (int i = 0; i + 1 < ranks; ++i) {
    const int peer = (rank + 1 + i) % ranks;
    came->emplace_back(bytes);
    pieces.push_back(piece_of(comm, rank, peer, blocks + static_cast<std::size_t>(peer) * bytes, nullptr, bytes));
    pieces.push_back(piece_of(comm, peer, rank, nullptr, came->back().data(), bytes));
  }
  auto* const lane = static_cast<zero::FakeStream*>(stream);
  queue(lane, std::move(pieces));
  lane->push([=, own = blocks + static_cast<std::size_t>(rank) * bytes, aborted = comm->aborted] {
    if (*aborted) return true;
    came->emplace_back(own, own + bytes);
    for (std::size_t i = 1; i < came->size(); ++i) add_to(came->front().data(), (*came)[i].data(), numel, type);
    std::memcpy(out, came->front().data(), bytes);
    return true;
  });
  return result_of(*comm);
}
Result ncclAllGather(const void* in, void* out, std::size_t bytes, int, ncclComm* comm, void* stream) {
  std::vector<std::function<bool()>> pieces;
  auto* const blocks = static_cast<char*>(out);
  for (int peer = 0; peer < comm->num_ranks; ++peer) {
    char* const block = blocks + static_cast<std::size_t>(peer) * bytes;
    if (peer == comm->rank) {
      if (block == in) continue;  // in place: other ranks may already read it
      pieces.push_back([=] {
        std::memmove(block, in, bytes);
        return true;
      });
      continue;
    }
    pieces.push_back(piece_of(comm, comm->rank, peer, in, nullptr, bytes));
    pieces.push_back(piece_of(comm, peer, comm->rank, nullptr, block, bytes));
  }
  queue(static_cast<zero::FakeStream*>(stream), std::move(pieces));
  return result_of(*comm);
}

}  // extern "C"
