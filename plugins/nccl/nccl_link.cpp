// libzero_transport_nccl.so: DeviceLink over NCCL. It has run on a GPU with one rank (docs/gpu.md).
//
// Communicators are non-blocking, so no call waits for a missing rank. A call that NCCL cannot finish at once returns
// ncclInProgress, and ncclCommGetAsyncError reports when it is queued. A failed communicator is aborted, which also
// ends its kernels. A link that ends is also aborted: ncclCommDestroy may wait for other ranks, and DeviceCommunicator
// has made sure that all of them are done.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "zero/comm/device_link.h"

#include "plugins/nccl/nccl_api.h"

namespace {

using zero::DeviceLink;
using zero::DeviceLinkFailure;
using zero::DeviceLinkId;
using zero::DeviceLinkRequest;
using zero_nccl::NcclApi;
using zero_nccl::Result;

void report(DeviceLinkFailure& failure, bool configuration, std::string_view reason, std::string_view remedy) {
  failure.configuration = configuration;
  std::snprintf(failure.reason, sizeof failure.reason, "%.*s", static_cast<int>(reason.size()), reason.data());
  std::snprintf(failure.remedy, sizeof failure.remedy, "%.*s", static_cast<int>(remedy.size()), remedy.data());
}

// Returns NCCL's text for a result, with the line of its log that explains it.
std::string text_of(const NcclApi& nccl, Result result, zero_nccl::Comm comm) {
  std::string text = nccl.error_string(result);
  const char* const last = nccl.last_error(comm);
  if (last != nullptr && last[0] != '\0') text += std::string(": ") + last;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_refusal(Result result) {
  return result == zero_nccl::kInvalidUsage || result == zero_nccl::kInvalidArgument;
}

int type_of(DeviceLink::Element element) {
  switch (element) {
    case DeviceLink::Element::kFloat16:
      return zero_nccl::kFloat16;
    case DeviceLink::Element::kBFloat16:
      return zero_nccl::kBFloat16;
    case DeviceLink::Element::kFloat32:
      break;
  }
  return zero_nccl::kFloat32;
}

class NcclLink final : public DeviceLink {
 public:
  NcclLink(const NcclApi& nccl, zero_nccl::Comm comm) : nccl_(nccl), comm_(comm) {}
  ~NcclLink() override { abort(); }
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  State all_gather(void* stream, std::span<const std::byte> in, std::byte* out) override {
    if (comm_ == nullptr) return State::kFailed;
    return after(nccl_.all_gather(in.data(), out, in.size(), zero_nccl::kUint8, comm_, stream));
  }

  State reduce_scatter(void* stream, const std::byte* in, std::byte* out, std::size_t numel, Element element) override {
    if (comm_ == nullptr) return State::kFailed;
    return after(nccl_.reduce_scatter(in, out, numel, type_of(element), zero_nccl::kSum, comm_, stream));
  }

  State exchange(void* stream, std::span<const Sent> sent, std::span<const Received> received) override {
    if (comm_ == nullptr) return State::kFailed;
    Result worst = nccl_.group_start();
    const auto add = [&worst](Result result) {
      const bool is_worse = result != zero_nccl::kSuccess && result != zero_nccl::kInProgress;
      if (is_worse || worst == zero_nccl::kSuccess) worst = result;
    };
    for (const Sent& message : sent)
      add(nccl_.send(message.data, message.bytes, zero_nccl::kUint8, message.to, comm_, stream));
    for (const Received& message : received)
      add(nccl_.receive(message.data, message.bytes, zero_nccl::kUint8, message.from, comm_, stream));
    add(nccl_.group_end());
    return after(worst);
  }

  State state() override {
    if (comm_ == nullptr) return State::kFailed;
    Result result = zero_nccl::kSuccess;
    const Result asked = nccl_.async_error(comm_, &result);
    return after(asked == zero_nccl::kSuccess ? result : asked);
  }
  const char* reason() const override { return reason_.c_str(); }
  bool refused() const override { return refused_; }

  void abort() override {
    if (comm_ == nullptr) return;
    if (reason_.empty()) reason_ = "the communicator of NCCL was aborted";
    nccl_.comm_abort(comm_);
    comm_ = nullptr;
  }

 private:
  State after(Result result) {
    if (result == zero_nccl::kSuccess) return State::kReady;
    if (result == zero_nccl::kInProgress) return State::kBusy;
    reason_ = text_of(nccl_, result, comm_);
    refused_ = is_refusal(result);
    abort();
    return State::kFailed;
  }

  const NcclApi& nccl_;
  zero_nccl::Comm comm_;
  std::string reason_;
  bool refused_ = false;
};

const NcclApi* open_library(int version, DeviceLinkFailure& failure) {
  if (version != zero::kDeviceLinkVersion) {
    report(failure, true, "libzero_transport_nccl.so belongs to another version of zero.cpp", "install zero.cpp again");
    return nullptr;
  }
  NcclApi::WhyNot why_not;
  const NcclApi* const nccl = NcclApi::open(why_not);
  if (nccl == nullptr) report(failure, true, why_not.reason, why_not.remedy);
  return nccl;
}

DeviceLink* open_link(const DeviceLinkRequest& request, DeviceLinkFailure& failure) {
  const NcclApi* const nccl = open_library(request.version, failure);
  if (nccl == nullptr) return nullptr;
  zero_nccl::UniqueId id{};
  static_assert(sizeof id.internal == sizeof request.id.bytes);
  std::memcpy(id.internal, request.id.bytes, sizeof id.internal);
  zero_nccl::Config config;
  config.blocking = 0;
  zero_nccl::Comm comm = nullptr;
  const Result result = nccl->comm_init(&comm, request.world, id, request.rank, &config);
  if (comm != nullptr && (result == zero_nccl::kSuccess || result == zero_nccl::kInProgress))
    return new NcclLink(*nccl, comm);
  report(failure, is_refusal(result), text_of(*nccl, result, comm), "");
  if (comm != nullptr) nccl->comm_abort(comm);
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool zero_make_device_link_id(int version, DeviceLinkId* id,
                                                                                DeviceLinkFailure* failure) {
  try {
    const NcclApi* const nccl = open_library(version, *failure);
    if (nccl == nullptr || id == nullptr) return nccl != nullptr;
    zero_nccl::UniqueId made{};
    const Result result = nccl->get_unique_id(&made);
    std::memcpy(id->bytes, made.internal, sizeof id->bytes);
    if (result != zero_nccl::kSuccess) report(*failure, false, text_of(*nccl, result, nullptr), "");
    return result == zero_nccl::kSuccess;
  } catch (const std::exception& error) {
    report(*failure, false, error.what(), "");
    return false;
  }
}

extern "C" __attribute__((visibility("default"))) DeviceLink* zero_open_device_link(const DeviceLinkRequest* request,
                                                                                    DeviceLinkFailure* failure) {
  try {
    return open_link(*request, *failure);
  } catch (const std::exception& error) {
    report(*failure, false, error.what(), "");
    return nullptr;
  }
}
