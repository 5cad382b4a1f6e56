#include "zero/base/error/warn_once.h"

#include <mutex>
#include <set>
#include <string>

namespace zero {

bool say_once(std::string_view what) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  const std::scoped_lock lock(mutex);
  return said.emplace(what).second;
}

}  // namespace zero
