#include "python/extension/c10d_link.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <future>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/comm/message/message_communicator.h"
#include "zero/comm/rendezvous/detect_ranks.h"

namespace zero::python {
namespace {

using std::chrono::milliseconds;

// A tag of c10d is an int. Bit 30 separates these tags from those of a program that uses the same group.
int fold(std::uint64_t tag) {
  constexpr std::uint64_t kOwn = std::uint64_t{1} << 30;
  constexpr std::uint64_t kNumberBits = 14;  // the number of a collective mod 4096, and two bits for the kind
  const std::uint64_t channel = tag >> kLinkChannelShift;
  return static_cast<int>(kOwn | channel << kNumberBits | (tag & ((std::uint64_t{1} << kNumberBits) - 1)));
}

// gloo's messages are complete only in wait(), and a wait that ends too early closes all connections. So test() waits
// in another thread.
class C10dTransfer final : public MessageLink::Transfer {
 public:
  template <typename Begin>
  C10dTransfer(std::byte* data, std::size_t bytes, Begin begin) {
    try {
      std::vector<at::Tensor> tensors{at::from_blob(data, {static_cast<std::int64_t>(bytes)}, at::kByte)};
      work_ = begin(tensors);
      if (work_ == nullptr) reason_ = "the process group has no messages between two ranks";
    } catch (const std::exception& error) {
      note(error);
    }
  }

  ~C10dTransfer() override {
    if (!waiting_.valid()) return;
    try {
      if (!ended_) work_->abort();
    } catch (const std::exception&) {  // this backend ends its waits itself
    }
    waiting_.wait();
  }
  C10dTransfer(const C10dTransfer&) = delete;
  C10dTransfer& operator=(const C10dTransfer&) = delete;

  MessageLink::Status wait(milliseconds limit) override {
    if (ended_) return *ended_;
    if (!waiting_.valid()) return keep(wait_here(limit));
    if (waiting_.wait_for(limit) != std::future_status::ready) return MessageLink::Status::kLate;
    return keep(waiting_.get());
  }

  MessageLink::Status test() override {
    if (ended_) return *ended_;
    if (!reason_.empty()) return keep(MessageLink::Status::kGone);
    if (!waiting_.valid()) {
      try {
        waiting_ = std::async(std::launch::async, [this] { return wait_here(milliseconds(0)); });
      } catch (const std::exception& error) {  // no thread
        note(error);
        return keep(MessageLink::Status::kGone);
      }
    }
    return wait(milliseconds(0));
  }
  const char* reason() const override { return reason_.c_str(); }

 private:
  // `limit` 0: none.
  MessageLink::Status wait_here(milliseconds limit) {
    if (!reason_.empty()) return MessageLink::Status::kGone;
    const auto begin = std::chrono::steady_clock::now();
    try {
      if (work_->wait(limit)) return MessageLink::Status::kDone;
      reason_ = "the wait was aborted";
    } catch (const std::exception& error) {
      if (limit.count() > 0 && std::chrono::steady_clock::now() - begin >= limit) return MessageLink::Status::kLate;
      note(error);
    }
    return MessageLink::Status::kGone;
  }

  MessageLink::Status keep(MessageLink::Status status) {
    if (status != MessageLink::Status::kLate) ended_ = status;
    return status;
  }

  // The first line: libtorch appends a trace.
  void note(const std::exception& error) {
    const std::string_view text = error.what();
    reason_ = text.substr(0, text.find('\n'));
    if (reason_.empty()) reason_ = "an error without text";
  }

  c10::intrusive_ptr<c10d::Work> work_;
  std::future<MessageLink::Status> waiting_;
  std::optional<MessageLink::Status> ended_;
  std::string reason_;
};

class C10dLink final : public MessageLink {
 public:
  explicit C10dLink(c10::intrusive_ptr<c10d::Backend> backend) : backend_(std::move(backend)) {}

  std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) override {
    return std::make_unique<C10dTransfer>(
        const_cast<std::byte*>(data.data()), data.size(),
        [&](std::vector<at::Tensor>& tensors) { return backend_->send(tensors, to, fold(tag)); });
  }
  std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) override {
    return std::make_unique<C10dTransfer>(data.data(), data.size(), [&](std::vector<at::Tensor>& tensors) {
      return backend_->recv(tensors, from, fold(tag));
    });
  }
  // The group belongs to the program.
  void abandon() override {}

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
};

c10::intrusive_ptr<c10d::ProcessGroup> group_named(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const std::exception&) {
    throw ConfigError("process_group", name, "torch.distributed knows no group of this name in this process",
                      "call torch.distributed.init_process_group() first, and destroy_process_group() after close()");
  }
}

c10::intrusive_ptr<c10d::Backend> cpu_backend(c10d::ProcessGroup& group) {
  try {
    return group.getBackend(c10::DeviceType::CPU);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Returns the number of ranks on this machine, by the names of the machines.
int ranks_here(Communicator& communicator) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return static_cast<int>(std::ranges::count(all_gather_text(communicator, name.data()), std::string(name.data())));
}

}  // namespace

std::unique_ptr<MessageLink> link_over(c10::intrusive_ptr<c10d::Backend> backend) {
  return std::make_unique<C10dLink>(std::move(backend));
}

bool has_cpu_backend(const std::string& group_name) {
  return cpu_backend(*group_named(group_name)) != nullptr;
}

World world_over(const std::string& group_name, milliseconds timeout) {
  const auto launcher_restarts = [](const char* name) {  // the group says the ranks, whatever other variables say
    return std::string_view(name) == "ZERO_MAX_REPLACEMENTS" ? std::getenv(name) : nullptr;
  };
  if (detect_ranks({}, launcher_restarts).most_replacements > 0)
    throw ConfigError("process_group", group_name,
                      "a rank that is started again alone finds no way into a process group",
                      "use zero.world(), or leave out --max-restarts and --spared-from");
  const c10::intrusive_ptr<c10d::ProcessGroup> group = group_named(group_name);
  c10::intrusive_ptr<c10d::Backend> backend = cpu_backend(*group);
  if (backend == nullptr)
    throw ConfigError("process_group", group_name, "it has no backend for CPUs",
                      "use torch.distributed.new_group(backend=\"gloo\")");
  auto communicator = std::make_unique<MessageCommunicator>(link_over(std::move(backend)), "c10d", group->getRank(),
                                                            group->getSize(), timeout);
  communicator->barrier({.control = true}).wait();
  const int here = ranks_here(*communicator);
  return World(std::move(communicator), here, "process group " + group_name, "c10d-" + group_name);
}

}  // namespace zero::python
