#include "zero/comm/transport/open_transport.h"

#include <array>
#include <cstdlib>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/files/plugin_file.h"
#include "zero/comm/board/shared_memory.h"
#include "zero/comm/message/message_communicator.h"
#include "zero/comm/rendezvous/job_token.h"
#include "zero/comm/transport/open_device_link.h"
#include "zero/comm/transport/torchrun_rendezvous.h"

namespace zero {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif
#else
constexpr bool kSanitizer = false;
#endif

struct Plugin {
  std::string_view name;
  std::string_view remedy;  // remedy if it is missing
  int flags;                // of dlopen
};

// gloo binds to its own symbols first, because libtorch exports a gloo of another version.
constexpr std::array kPlugins{
    Plugin{"mpi", "install libopenmpi-dev and openmpi-bin (or libmpich-dev and mpich), then build again",
           RTLD_NOW | RTLD_LOCAL},
    Plugin{"gloo", "install libgloo-dev, then build again", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND},
};
constexpr std::string_view kNames = "auto, shared_memory, mpi, gloo, nccl";

std::optional<Plugin> find_plugin(std::string_view name) {
  for (const Plugin& plugin : kPlugins) {
    if (plugin.name == name) return plugin;
  }
  return std::nullopt;
}

std::string file_of(const Plugin& plugin) {
  return plugin_file(fmt::format("libzero_transport_{}.so", plugin.name));
}

std::string why_not_there(const Plugin& plugin) {
  return fmt::format("libzero_transport_{}.so is not installed: {}", plugin.name, plugin.remedy);
}

[[noreturn]] void refuse_plugin(const Plugin& plugin, const std::string& why_not) {
  throw ConfigError("comm.transport", plugin.name, why_not, "or use another transport; `zero doctor` lists them");
}

// The result of opening a plug-in. It stays loaded for the life of the process, because libraries like MPI leave
// threads and exit handlers behind.
struct Opened {
  OpenLink open = nullptr;
  std::string path;
  std::string why_not;
};

Opened open_plugin(const Plugin& plugin) {
  if (plugin.name == "gloo" && kSanitizer) {
    return {.why_not = "skipped under AddressSanitizer and ThreadSanitizer, which cannot work with RTLD_DEEPBIND"};
  }
  Opened opened{.path = file_of(plugin)};
  if (opened.path.empty()) return {.why_not = why_not_there(plugin)};
  void* library = dlopen(opened.path.c_str(), plugin.flags | RTLD_NODELETE);
  if (library == nullptr) return {.why_not = dlerror()};
  opened.open = reinterpret_cast<OpenLink>(dlsym(library, "zero_open_link"));
  if (opened.open == nullptr) opened.why_not = fmt::format("{} is not a plug-in of zero.cpp", opened.path);
  return opened;
}

// Returns torchrun's store for gloo; MPI has a rendezvous of its own.
std::unique_ptr<TorchrunRendezvous> rendezvous_point(const Plugin& plugin, const RankEnvironment& ranks,
                                                     std::chrono::milliseconds timeout) {
  if (plugin.name != "gloo" || !ranks.agent_run || ranks.world == 1) return nullptr;
  return std::make_unique<TorchrunRendezvous>(ranks, timeout);
}

std::unique_ptr<Communicator> connect(const Plugin& plugin, const RankEnvironment& ranks,
                                      std::chrono::milliseconds timeout) {
  if (plugin.name != "gloo" && ranks.most_replacements > 0)
    throw ConfigError("comm.transport", plugin.name,
                      "over this transport a rank that restarts by itself cannot join a run",
                      "use shared_memory or gloo, or leave out --max-restarts or --spared-from");
  const Opened opened = open_plugin(plugin);
  if (opened.open == nullptr) refuse_plugin(plugin, opened.why_not);
  const std::string token = plugin.name == "gloo" ? rendezvous_token(ranks, std::getenv) : "";
  const std::unique_ptr<TorchrunRendezvous> point = rendezvous_point(plugin, ranks, timeout);
  const char* interface = std::getenv("ZERO_COMM_INTERFACE");
  const LinkRequest request{
      .rank = ranks.rank,
      .world = ranks.world,
      .address = ranks.master_addr.c_str(),
      .port = ranks.master_port,
      .rendezvous_point = point.get(),
      .run_id = point != nullptr ? point->name().c_str() : ranks.run_id.c_str(),
      .token = token.c_str(),
      .one_host = ranks.world == ranks.local_world,
      .interface = interface != nullptr ? interface : "",
      .timeout_ms = timeout.count(),
      .replacement = ranks.replacement,
      .most_replacements = ranks.most_replacements,
      .warn = [](const char* line) { ZERO_LOG(warn, "{}", line); },
  };
  LinkFailure failure;
  std::unique_ptr<MessageLink> link(opened.open(&request, &failure));
  if (link == nullptr && failure.configuration) throw ConfigError("comm.transport", plugin.name, failure.reason, "");
  if (link == nullptr) throw CommError(failure.rank, fmt::format("opening {}", plugin.name), failure.reason);
  return std::make_unique<MessageCommunicator>(std::move(link), std::string(plugin.name), ranks.rank, ranks.world,
                                               timeout);
}

std::string_view choose(const RankEnvironment& ranks) {
  if (ranks.world == ranks.local_world && ranks.world <= 64) return "shared_memory";
  return ranks.source == "Open MPI" || ranks.source == "PMI" ? "mpi" : "gloo";
}

}  // namespace

std::unique_ptr<Communicator> open_transport(std::string_view name, const RankEnvironment& ranks,
                                             std::chrono::milliseconds timeout) {
  if (name == "auto") name = choose(ranks);
  if (name == "shared_memory") return connect_shared_memory(ranks, timeout);
  if (name == "nccl")
    throw ConfigError("comm.transport", name,
                      "it moves bytes only between GPUs, and needs a transport of the host beside it",
                      "use shared_memory, mpi or gloo");
  if (const auto plugin = find_plugin(name)) return connect(*plugin, ranks, timeout);
  throw ConfigError("comm.transport", name, "is not a transport that processes can use",
                    fmt::format("choose one of: {}", kNames));
}

void require_transport(std::string_view name) {
  const std::optional<Plugin> plugin = find_plugin(name);
  if (plugin && file_of(*plugin).empty()) refuse_plugin(*plugin, why_not_there(*plugin));
}

std::vector<TransportStatus> transport_statuses() {
  std::vector<TransportStatus> statuses{{"shared_memory", true, "embedded"}};
  for (const Plugin& plugin : kPlugins) {
    const Opened opened = open_plugin(plugin);
    const bool available = opened.open != nullptr;
    statuses.push_back({std::string(plugin.name), available, available ? opened.path : opened.why_not});
  }
  const DeviceLinkHere between_gpus = device_link_here();
  statuses.push_back(
      {"nccl", between_gpus.available,
       between_gpus.available ? between_gpus.why : fmt::format("{}: {}", between_gpus.why, between_gpus.remedy)});
  return statuses;
}

}  // namespace zero
