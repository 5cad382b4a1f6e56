// PushLog: a file with the order of events of a run with servers, from which the run can be repeated bit for bit.
//
//   PushLog log(files.pushes, /*clock=*/0, places);  // a new file; in a resumed run: a line that says so
//   log.add({.worker = 2, .clock = 17});
//   log.end(40);                                     // all 40 clocks are done: no event follows
//   log.flush();                                     // writes the lines, in one write(2)
//   RecordedPushes recorded = PushLog::read(path);
//
// It also has the machines and builds of the ranks. Each line ends with a checksum of all lines up to it, and the last
// line says that the run did all its steps. So a changed, missing or added line is refused, and also the log of a run
// that was stopped early. Local. Throws IoError; read() throws ConfigError under "--replay", also for a log of another
// format.
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
  // Writes "begin 0 format 3 SUM" or "resumed 20 format 3 SUM", then "rank 2 threads 1 ... SUM" for each rank
  // (computing_place.h).
  PushLog(const std::filesystem::path& path, std::int64_t clock, std::span<const ComputingPlace> places);
  // Adds "push 2 17 SUM", "leave 2 17 SUM" or "return 2 17 SUM".
  void add(const PushEvent& event);
  // Adds "end 40 SUM" when the run has done all its clocks. Nothing may be added after it.
  void end(std::int64_t clocks);
  void flush();

  // Returns events and places of a run that did all its steps without being resumed.
  static RecordedPushes read(const std::filesystem::path& path);

 private:
  void add_line(std::string text);

  std::optional<AppendFile> file_;
  std::string sum_;  // checksum of all lines
  std::string pending_;
};

}  // namespace zero
