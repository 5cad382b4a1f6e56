#include "zero/comm/transport/open_device_link.h"

#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/plugin_file.h"
#include "zero/comm/collectives.h"
#include "zero/comm/group.h"
#include "zero/comm/waited_time.h"

namespace zero {
namespace {

constexpr std::string_view kLinkKey = "comm.transport", kLinkName = "nccl";
constexpr const char* kWayOut = "leave comm.transport out: bytes then pass through the host";

struct LinkPlugin {
  MakeDeviceLinkId make_id = nullptr;
  OpenDeviceLink open = nullptr;
  std::string path;
};

// The result on one rank. Each rank sends its own, so all ranks know of a failure and throw the same error.
struct Outcome {
  enum class Kind : char { kGood = 'g', kRefused = 'r', kFailed = 'f' };
  Kind kind = Kind::kGood;
  std::string reason, remedy;
};

// The plug-in stays loaded for the life of the process.
LinkPlugin find_link_plugin(Outcome& outcome) {
  using Kind = Outcome::Kind;
  LinkPlugin plugin{.path = plugin_file("libzero_transport_nccl.so")};
  if (plugin.path.empty()) {
    outcome = {Kind::kRefused, "libzero_transport_nccl.so is not installed", "install zero.cpp again"};
    return plugin;
  }
  void* const library = dlopen(plugin.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    outcome = {Kind::kRefused, dlerror(), kWayOut};
    return plugin;
  }
  plugin.make_id = reinterpret_cast<MakeDeviceLinkId>(dlsym(library, "zero_make_device_link_id"));
  plugin.open = reinterpret_cast<OpenDeviceLink>(dlsym(library, "zero_open_device_link"));
  if (plugin.make_id == nullptr || plugin.open == nullptr)
    outcome = {Kind::kRefused, plugin.path + " is not a plug-in of zero.cpp", "install zero.cpp again"};
  return plugin;
}

Outcome outcome_of(const DeviceLinkFailure& failure) {
  return {failure.configuration ? Outcome::Kind::kRefused : Outcome::Kind::kFailed, failure.reason,
          failure.remedy[0] != '\0' ? failure.remedy : kWayOut};
}

// Opens the library, so each rank tries that. Makes an id unless `id` is null: only one rank may, because its maker
// listens.
void make_link_id(const LinkPlugin& plugin, DeviceLinkId* id, Outcome& outcome) {
  DeviceLinkFailure failure;
  if (outcome.kind == Outcome::Kind::kGood && !plugin.make_id(kDeviceLinkVersion, id, &failure))
    outcome = outcome_of(failure);
}

int name_in_world(Communicator& control, std::size_t rank) {
  const auto number = static_cast<int>(rank);
  return control.groups() == nullptr ? number : control.groups()->world_rank(number);
}

// Collective: all ranks throw the error of the first rank that failed.
void agree_on(Communicator& control, const Outcome& own) {
  constexpr char kEnd = '\n';
  std::string reason = own.reason;
  for (char& letter : reason)
    if (letter == kEnd) letter = ' ';
  const std::string text = fmt::format("{}{}{}{}", static_cast<char>(own.kind), reason, kEnd, own.remedy);
  const std::vector<std::string> texts = all_gather_text(control, text);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto kind = static_cast<Outcome::Kind>(texts[rank].front());
    if (kind == Outcome::Kind::kGood) continue;
    const std::size_t end = texts[rank].find(kEnd);
    const int number = name_in_world(control, rank);
    const std::string why = texts[rank].substr(1, end - 1);
    if (kind == Outcome::Kind::kRefused)
      throw ConfigError(kLinkKey, kLinkName, fmt::format("rank {}: {}", number, why), texts[rank].substr(end + 1));
    throw CommError(number, "opening nccl", why);
  }
}

// NCCL itself reports this only to the two ranks, while the others wait for them.
void refuse_shared_gpus(Communicator& control, std::string_view identity) {
  const std::vector<std::string> gpus = all_gather_text(control, identity);
  for (std::size_t second = 0; second < gpus.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      if (gpus[first].empty() || gpus[first] != gpus[second]) continue;
      throw ConfigError(kLinkKey, kLinkName,
                        fmt::format("ranks {} and {} are both on the GPU {}, and NCCL refuses two ranks on one GPU",
                                    name_in_world(control, first), name_in_world(control, second), gpus[first]),
                        fmt::format("start one rank for each GPU; or {}", kWayOut));
    }
  }
}

// Waits until all ranks have connected, at most half the timeout: a failing rank then reports why before the others
// call it late.
std::unique_ptr<DeviceLink> connect_link(const LinkPlugin& plugin, const DeviceLinkRequest& request, double limit,
                                         Outcome& outcome) {
  DeviceLinkFailure failure;
  std::unique_ptr<DeviceLink> link(plugin.open(&request, &failure));
  if (link == nullptr) {
    outcome = outcome_of(failure);
    return nullptr;
  }
  WaitedTime waited;
  DeviceLink::State state = link->state();
  while (state == DeviceLink::State::kBusy && waited.seconds() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = link->state();
  }
  using Kind = Outcome::Kind;
  if (state == DeviceLink::State::kFailed)
    outcome = {link->refused() ? Kind::kRefused : Kind::kFailed, fmt::format("NCCL: {}", link->reason()), kWayOut};
  if (state == DeviceLink::State::kBusy)
    outcome = {Kind::kFailed, fmt::format("NCCL has not connected the ranks within {:g} s", limit), kWayOut};
  return link;
}

}  // namespace

std::unique_ptr<DeviceLink> open_device_link(Communicator& control, Device& device) {
  Outcome outcome;
  const LinkPlugin plugin = find_link_plugin(outcome);
  DeviceLinkRequest request{.rank = control.rank(), .world = control.world()};
  make_link_id(plugin, nullptr, outcome);
  agree_on(control, outcome);
  refuse_shared_gpus(control, device.identity());
  if (control.rank() == 0) make_link_id(plugin, &request.id, outcome);
  agree_on(control, outcome);
  broadcast(control, std::as_writable_bytes(std::span(request.id.bytes)), 0, {.control = true});

  static_cast<void>(device.native_queue(Lane::kGather));  // from here on, this device is the thread's device
  const double limit = std::chrono::duration<double>(control.timeout()).count() / 2;
  std::unique_ptr<DeviceLink> link = connect_link(plugin, request, limit, outcome);
  agree_on(control, outcome);
  return link;
}

DeviceLinkHere device_link_here() {
  Outcome outcome;
  const LinkPlugin plugin = find_link_plugin(outcome);
  make_link_id(plugin, nullptr, outcome);
  if (outcome.kind == Outcome::Kind::kGood) return {true, plugin.path, ""};
  return {false, outcome.reason, outcome.remedy};
}

}  // namespace zero
