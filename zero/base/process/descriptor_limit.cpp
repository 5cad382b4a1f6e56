#include "zero/base/process/descriptor_limit.h"

#include <algorithm>
#include <cerrno>

#include "zero/base/error/error.h"

namespace zero {

DescriptorLimit::DescriptorLimit() {
  if (getrlimit(RLIMIT_NOFILE, &before_) != 0) throw IoError("launcher", "getrlimit", errno);
  now_ = before_;
  now_.rlim_cur = before_.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &now_) != 0) now_ = before_;
}

DescriptorLimit::~DescriptorLimit() {
  setrlimit(RLIMIT_NOFILE, &before_);
}

std::size_t DescriptorLimit::room_for(std::size_t wanted, std::size_t others) const {
  const std::size_t all = now_.rlim_cur;
  return std::min(wanted, all > others ? all - others : 0);
}

}  // namespace zero
