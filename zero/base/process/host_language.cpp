#include "zero/base/process/host_language.h"

namespace zero {
namespace {

HostLanguage& the_host_language() {
  static HostLanguage host;
  return host;
}

}  // namespace

void set_host_language(const HostLanguage& host) {
  the_host_language() = host;
}

const HostLanguage& host_language() {
  return the_host_language();
}

HostUnlocked::HostUnlocked() : state_(the_host_language().unlock != nullptr ? the_host_language().unlock() : nullptr) {}

HostUnlocked::~HostUnlocked() {
  if (state_ != nullptr) the_host_language().lock(state_);
}

void check_wait() {
  if (the_host_language().check_wait != nullptr) the_host_language().check_wait();
}

}  // namespace zero
