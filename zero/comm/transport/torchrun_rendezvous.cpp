#include "zero/comm/transport/torchrun_rendezvous.h"

#include <cstdio>
#include <sstream>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/random_bytes.h"

namespace zero {
namespace {

// If rank 0 reached the store over loopback, it runs on the store's machine, which other ranks know by another address.
bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

bool refuse(LinkFailure* failure, int rank, const char* reason) {
  failure->configuration = false;
  failure->rank = rank;
  std::snprintf(failure->reason, sizeof failure->reason, "%s", reason);
  return false;
}

}  // namespace

TorchrunRendezvous::TorchrunRendezvous(const RankEnvironment& ranks, std::chrono::milliseconds timeout)
    : store_(ranks.master_addr, ranks.master_port, timeout),
      key_(fmt::format("zero/{}/rank 0", *ranks.agent_run)),
      name_(random_name(16)),
      master_addr_(ranks.master_addr) {}

bool TorchrunRendezvous::announce(int port, LinkFailure* failure) try {
  store_.set(key_, fmt::format("{} {} {}", store_.local_address(), port, name_));
  return true;
} catch (const CommError& error) {
  return refuse(failure, -1, error.what());
}

bool TorchrunRendezvous::look_up(Place* place, LinkFailure* failure) try {
  const std::string entry = store_.get(key_);
  std::istringstream words(entry);
  std::string address, name;
  int port = 0;
  if (!(words >> address >> port >> name)) {
    return refuse(failure, 0, fmt::format("'{}' under '{}' is not an address", entry, key_).c_str());
  }
  if (is_loopback(address)) address = master_addr_;
  std::snprintf(place->address, sizeof place->address, "%s", address.c_str());
  std::snprintf(place->name, sizeof place->name, "%s", name.c_str());
  place->port = port;
  return true;
} catch (const CommError& error) {
  return refuse(failure, 0, fmt::format("did not publish its address: {}", error.what()).c_str());
}

}  // namespace zero
