#include "zero/base/process/process_memory.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/proc_file.h"

namespace zero {
namespace {

std::int64_t read_field(const std::string& path, std::string_view name) {
  if (const auto bytes = field_kib(read_proc_file(path), name)) return *bytes;
  throw IoError(path, "parse", 0, fmt::format("no line \"{}\"", name));
}

}  // namespace

std::int64_t resident_bytes() {
  return read_field("/proc/self/status", "VmRSS");
}
std::int64_t peak_resident_bytes() {
  return read_field("/proc/self/status", "VmHWM");
}
std::int64_t proportional_bytes() {
  return read_field("/proc/self/smaps_rollup", "Pss");
}

}  // namespace zero
