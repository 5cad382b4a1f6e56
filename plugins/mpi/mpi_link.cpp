// libzero_transport_mpi.so: MessageLink over MPI-3 (Open MPI, MPICH).
//
// One thread makes all calls (MPI_THREAD_FUNNELED). MPI moves bytes only during calls, so a wait polls. It sleeps
// between polls in growing steps, up to 200 us, so ranks that share cores do not spin. Errors are returned, not fatal.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "zero/comm/message/message_link.h"

namespace {

using zero::LinkFailure;
using zero::LinkRequest;
using zero::MessageLink;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// An MPI count is an int, so longer messages are sent in pieces, which match in order.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;
// Tags of a channel. Every MPI has at least 32768 tags, enough for two channels; Open MPI and MPICH have many more.
constexpr std::uint64_t kNumTags = 16384;

std::string text_of(int error) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

class MpiTransfer final : public MessageLink::Transfer {
 public:
  // `tag` -1: this MPI has no tag for the channel.
  template <class Begin>
  MpiTransfer(std::byte* data, std::size_t bytes, int tag, Begin begin) {
    if (tag < 0) reason_ = "this MPI has too few tags for another group of ranks";
    for (std::size_t first = 0; reason_.empty() && first < bytes; first += kPieceBytes) {
      requests_.push_back(MPI_REQUEST_NULL);
      const int count = static_cast<int>(std::min(kPieceBytes, bytes - first));
      if (const int error = begin(data + first, count, &requests_.back()); error != MPI_SUCCESS) {
        requests_.back() = MPI_REQUEST_NULL;
        reason_ = text_of(error);
        return;
      }
    }
  }

  // Only a failure leaves requests. They must not write into freed memory.
  ~MpiTransfer() override {
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  MessageLink::Status wait(milliseconds limit) override {
    const auto deadline = Clock::now() + limit;
    auto pause = std::chrono::microseconds(0);
    for (int polls = 0;; ++polls) {
      if (const auto status = test(); status != MessageLink::Status::kLate) return status;
      if (polls < 50) {
        std::this_thread::yield();
        continue;
      }
      if (Clock::now() > deadline) return MessageLink::Status::kLate;
      pause = std::min(pause + std::chrono::microseconds(5), std::chrono::microseconds(200));
      std::this_thread::sleep_for(pause);
    }
  }
  MessageLink::Status test() override {
    if (!reason_.empty()) return MessageLink::Status::kGone;
    int done = 0;
    const int error = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
    if (error != MPI_SUCCESS) {
      reason_ = text_of(error);
      return MessageLink::Status::kGone;
    }
    return done != 0 ? MessageLink::Status::kDone : MessageLink::Status::kLate;
  }
  const char* reason() const override { return reason_.c_str(); }

 private:
  std::vector<MPI_Request> requests_;
  std::string reason_;
};

class MpiLink final : public MessageLink {
 public:
  MpiLink(MPI_Comm comm, bool finalize) : comm_(comm), finalize_(finalize) {
    void* most = nullptr;
    int known = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known);
    if (known != 0) most_tag_ = static_cast<std::uint64_t>(*static_cast<int*>(most));
  }

  // After a failure, MPI_Finalize could wait for ranks that never call it.
  ~MpiLink() override {
    if (abandoned_) return;
    MPI_Comm_free(&comm_);
    if (finalize_) MPI_Finalize();
  }

  std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) override {
    const int own = own_tag(tag);
    return std::make_unique<MpiTransfer>(const_cast<std::byte*>(data.data()), data.size(), own,
                                         [&](std::byte* part, int count, MPI_Request* request) {
                                           return MPI_Isend(part, count, MPI_BYTE, to, own, comm_, request);
                                         });
  }

  std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) override {
    const int own = own_tag(tag);
    return std::make_unique<MpiTransfer>(data.data(), data.size(), own,
                                         [&](std::byte* part, int count, MPI_Request* request) {
                                           return MPI_Irecv(part, count, MPI_BYTE, from, own, comm_, request);
                                         });
  }

  void abandon() override { abandoned_ = true; }

 private:
  // Each channel has its own range of tags.
  int own_tag(std::uint64_t tag) const {
    const std::uint64_t channel = tag >> zero::kLinkChannelShift;
    const std::uint64_t own = channel * kNumTags + tag % kNumTags;
    return own <= most_tag_ ? static_cast<int>(own) : -1;
  }

  MPI_Comm comm_;
  std::uint64_t most_tag_ = 32767;
  bool finalize_;
  bool abandoned_ = false;
};

MessageLink* refuse(LinkFailure* failure, bool configuration, const std::string& reason) {
  failure->configuration = configuration;
  std::snprintf(failure->reason, sizeof failure->reason, "%s", reason.c_str());
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) MessageLink* zero_open_link(const LinkRequest* request,
                                                                              LinkFailure* failure) {
  if (request->version != zero::kLinkVersion)
    return refuse(failure, true, "the plug-in belongs to another version of zero.cpp");
  int finalized = 0, initialized = 0, level = MPI_THREAD_SINGLE;
  MPI_Finalized(&finalized);
  if (finalized != 0) return refuse(failure, true, "MPI was ended in this process and cannot begin again");
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level); error != MPI_SUCCESS) {
      return refuse(failure, false, "MPI_Init_thread: " + text_of(error));
    }
  } else {
    int main_thread = 0;
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&main_thread);
    if (level < MPI_THREAD_SERIALIZED && main_thread == 0) {
      return refuse(failure, true, "MPI was started by another thread, which is the only one that may call it");
    }
  }
  if (level < MPI_THREAD_FUNNELED) return refuse(failure, true, "this MPI cannot be used in a program with threads");
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (const int error = MPI_Comm_dup(MPI_COMM_WORLD, &comm); error != MPI_SUCCESS) {
    return refuse(failure, false, "MPI_Comm_dup: " + text_of(error));
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0, world = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &world);
  if (rank != request->rank || world != request->world) {
    return refuse(failure, true,
                  "MPI says rank " + std::to_string(rank) + " of " + std::to_string(world) + ", the launcher rank " +
                      std::to_string(request->rank) + " of " + std::to_string(request->world) +
                      ": start the ranks with mpirun");
  }
  return new MpiLink(comm, initialized == 0);
}
