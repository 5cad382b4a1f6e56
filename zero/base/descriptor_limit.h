// DescriptorLimit: while it lives, this process may open as many descriptors as the system allows. The launcher needs
// them for the memory that it holds for its ranks, which get the limit from before; a rank, for data in many files.
#pragma once

#include <cstddef>

#include <sys/resource.h>

namespace zero {

class DescriptorLimit {
 public:
  // Local. Throws IoError when the limits cannot be read; one that cannot be raised stays.
  DescriptorLimit();
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit();

  const rlimit& before() const { return before_; }
  // At most `wanted`: what is left when `others` are put aside.
  std::size_t room_for(std::size_t wanted, std::size_t others) const;

 private:
  rlimit before_{};
  rlimit now_{};
};

}  // namespace zero
