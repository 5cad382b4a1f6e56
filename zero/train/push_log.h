// PushLog: the order of events of a run with servers, as lines of a file in its folder, from which the run can be repeated
// bit for bit.
//
//   PushLog log(files.pushes, /*clock=*/0);       // a new file; of a run that goes on: a line that says so
//   log.add({.worker = 2, .clock = 17});
//   log.flush();                                     // written, in one write(2)
//   std::deque<PushEvent> events = PushLog::read(path);
//
// Each line ends with a sum over all lines until it: a line that was changed, left out or added is refused. Local. Throws
// IoError; read() ConfigError under "--replay".
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>

#include "zero/base/file.h"
#include "zero/plan/push_order.h"

namespace zero {

class PushLog {
 public:
  PushLog(const std::filesystem::path& path, std::int64_t clock);
  // "push 2 17 SUM", "leave 2 17 SUM", "return 2 17 SUM".
  void add(const PushEvent& event);
  void flush();

  static std::deque<PushEvent> read(const std::filesystem::path& path);

 private:
  void add_line(std::string text);

  std::optional<AppendFile> file_;
  std::string sum_;  // of all lines
  std::string pending_;
};

}  // namespace zero
