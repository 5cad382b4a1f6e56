// PushLog: the order of events of a run with servers and where its ranks compute, as lines of a file in its folder, from which
// the run can be repeated bit for bit.
//
//   PushLog log(files.pushes, /*clock=*/0, places);  // a new file; of a run that goes on: a line that says so
//   log.add({.worker = 2, .clock = 17});
//   log.end(40);                                     // all 40 clocks are done: no event follows
//   log.flush();                                     // written, in one write(2)
//   RecordedPushes recorded = PushLog::read(path);
//
// Each line ends with a sum over all lines until it, and the last line says that the run did all its steps: a line that was
// changed, left out or added is refused, wherever it is, and so is the log of a run that was stopped early. Local. Throws
// IoError; read() ConfigError under "--replay", also for a log of another format.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zero/base/files/file.h"
#include "zero/plan/served/push_order.h"

#include "app/train/folder/computing_place.h"

namespace zero {

struct RecordedPushes {
  std::deque<PushEvent> events;
  std::vector<ComputingPlace> places;  // by rank
};

class PushLog {
 public:
  // "begin 0 format 3 SUM", "resumed 20 format 3 SUM"; then of each rank "rank 2 threads 1 ... SUM" (computing_place.h).
  PushLog(const std::filesystem::path& path, std::int64_t clock, std::span<const ComputingPlace> places);
  // "push 2 17 SUM", "leave 2 17 SUM", "return 2 17 SUM".
  void add(const PushEvent& event);
  // "end 40 SUM", of a run that has done all its clocks. Nothing is added behind it.
  void end(std::int64_t clocks);
  void flush();

  // Events and places of a run that did all its steps in one go.
  static RecordedPushes read(const std::filesystem::path& path);

 private:
  void add_line(std::string text);

  std::optional<AppendFile> file_;
  std::string sum_;  // of all lines
  std::string pending_;
};

}  // namespace zero
