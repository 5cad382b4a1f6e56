#include "python/extension/log_queue.h"

#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "zero/base/error/log.h"

namespace py = pybind11;

namespace zero::python {
namespace {

constexpr std::size_t kMostLines = 1000;

using Line = std::pair<int, std::string>;  // level of the module logging, and text

// Lives as long as the process: threads may log while static objects are destroyed.
struct Queue {
  std::mutex mutex;
  std::deque<Line> lines;
};
Queue& queue() {
  static auto* const instance = new Queue;
  return *instance;
}

// Levels of the module logging: 10, 20, 30, 40.
int python_level(LogLevel level) {
  return 10 * (static_cast<int>(level) + 1);
}

void keep(LogLevel level, std::string_view line) {
  Queue& all = queue();
  const std::lock_guard lock(all.mutex);
  if (all.lines.size() == kMostLines) all.lines.pop_front();
  all.lines.emplace_back(python_level(level), line);
}

std::vector<Line> take() {
  Queue& all = queue();
  const std::lock_guard lock(all.mutex);
  std::vector<Line> lines(all.lines.begin(), all.lines.end());
  all.lines.clear();
  return lines;
}

void log_to_python(int from) {
  LogLevel level = LogLevel::error;
  for (const LogLevel one : {LogLevel::warn, LogLevel::info, LogLevel::debug})
    if (from <= python_level(one)) level = one;
  set_log_sink(&keep, level);
}

}  // namespace

void bind_log(py::module_& module) {
  module.def("log_to_python", &log_to_python);
  module.def("take_log", &take);
}

}  // namespace zero::python
