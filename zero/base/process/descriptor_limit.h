// DescriptorLimit: raises this process's descriptor limit to the system's maximum during its lifetime.
//
// The launcher needs descriptors for the memory that it holds for its ranks; ranks get the limit from before. A rank
// needs descriptors for data in many files.
#pragma once

#include <cstddef>

#include <sys/resource.h>

namespace zero {

class DescriptorLimit {
 public:
  // Local. Throws IoError if the limits cannot be read; a limit that cannot be raised stays.
  DescriptorLimit();
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit();

  const rlimit& before() const { return before_; }
  // Returns `wanted`, or the number that is left if `others` are reserved, whichever is less.
  std::size_t room_for(std::size_t wanted, std::size_t others) const;

 private:
  rlimit before_{};
  rlimit now_{};
};

}  // namespace zero
