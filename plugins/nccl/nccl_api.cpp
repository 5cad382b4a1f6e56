#include "plugins/nccl/nccl_api.h"

#include <mutex>

#include <dlfcn.h>

namespace zero_nccl {
namespace {

constexpr const char* kRemedy =
    "install the wheel nvidia-nccl-cu13, which torch's CUDA wheel includes, or put libnccl.so.2 into a folder of the "
    "loader. Or leave comm.transport out: bytes then pass through the host";

template <typename Function>
bool find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
  return function != nullptr;
}

std::string version_of(int number) {
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

bool find_all(void* library, NcclApi& nccl, std::string& missing) {
  find(library, "ncclGetVersion", nccl.get_version, missing);
  find(library, "ncclGetUniqueId", nccl.get_unique_id, missing);
  find(library, "ncclCommInitRankConfig", nccl.comm_init, missing);
  find(library, "ncclCommAbort", nccl.comm_abort, missing);
  find(library, "ncclCommGetAsyncError", nccl.async_error, missing);
  find(library, "ncclGetErrorString", nccl.error_string, missing);
  find(library, "ncclGetLastError", nccl.last_error, missing);
  find(library, "ncclAllGather", nccl.all_gather, missing);
  find(library, "ncclReduceScatter", nccl.reduce_scatter, missing);
  find(library, "ncclSend", nccl.send, missing);
  find(library, "ncclRecv", nccl.receive, missing);
  find(library, "ncclGroupStart", nccl.group_start, missing);
  find(library, "ncclGroupEnd", nccl.group_end, missing);
  return missing.empty();
}

bool is_new_enough(const NcclApi& nccl, std::string& reason) {
  int version = 0;
  const Result result = nccl.get_version(&version);
  if (result == kSuccess && version >= kLeastVersion) return true;
  reason = result != kSuccess
               ? std::string("NCCL does not give its version: ") + nccl.error_string(result)
               : "NCCL " + version_of(version) + " is too old: zero.cpp needs " + version_of(kLeastVersion);
  return false;
}

}  // namespace

const NcclApi* NcclApi::open(WhyNot& why_not) {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    why_not = {dlerror(), kRemedy};
    return nullptr;
  }
  // Ranks may be threads that open the library at the same time: `nccl` is filled once, and then only read.
  static std::mutex opening;
  static NcclApi nccl;
  static bool is_filled = false;
  const std::lock_guard lock(opening);
  std::string missing;
  // The version first, because it explains more than a missing function.
  if ((is_filled || (find(library, "ncclGetVersion", nccl.get_version, missing) &&
                     find(library, "ncclGetErrorString", nccl.error_string, missing))) &&
      !is_new_enough(nccl, why_not.reason)) {
    why_not.remedy = kRemedy;
    return nullptr;
  }
  is_filled = is_filled || find_all(library, nccl, missing);
  if (is_filled) return &nccl;
  why_not = {"libnccl.so.2 has no function " + missing, kRemedy};
  return nullptr;
}

}  // namespace zero_nccl
