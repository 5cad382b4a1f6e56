// NcclApi: the functions of libnccl.so.2 that we call, found at run time, so a build needs neither NCCL nor CUDA.
//
//   const NcclApi* const nccl = NcclApi::open(why_not);     // null: see why_not
//   nccl->get_version(&version);
//
// Names and values are those of nccl.h 2.18 to 2.28. The library is the one that libtorch has loaded, else the
// loader's.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

namespace zero_nccl {

extern "C" {
struct ncclComm;
}
using Comm = ncclComm*;
using Result = int;
constexpr Result kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7;
// Values of ncclDataType_t and ncclRedOp_t.
constexpr int kUint8 = 1, kFloat16 = 6, kFloat32 = 7, kBFloat16 = 9;
constexpr int kSum = 0;

struct UniqueId {
  char internal[128];
};

// The first fields of ncclConfig_t, with which every later version begins. NCCL uses its own values for fields that a
// config of this size and version does not have.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = INT_MIN;  // undefined
  int cluster = INT_MIN;
};

constexpr int kLeastVersion = 21800;

struct NcclApi {
  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*comm_init)(Comm*, int, UniqueId, int, Config*) = nullptr;
  Result (*comm_abort)(Comm) = nullptr;
  Result (*async_error)(Comm, Result*) = nullptr;
  const char* (*error_string)(Result) = nullptr;
  const char* (*last_error)(Comm) = nullptr;
  Result (*all_gather)(const void*, void*, std::size_t, int, Comm, void*) = nullptr;
  Result (*reduce_scatter)(const void*, void*, std::size_t, int, int, Comm, void*) = nullptr;
  Result (*send)(const void*, std::size_t, int, int, Comm, void*) = nullptr;
  Result (*receive)(void*, std::size_t, int, int, Comm, void*) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;

  struct WhyNot {
    std::string reason, remedy;
  };
  // The library stays loaded for the life of the process.
  static const NcclApi* open(WhyNot& why_not);
};

}  // namespace zero_nccl
