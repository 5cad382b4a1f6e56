// StepTimelineFile: a step of all ranks, from the file of run.timeline (zero/base/process/chrome_trace.h).
//
//   const auto timeline = read_timeline("runs/a/timeline.json");      // nothing if there is no such file
//   timeline->rows[0].name        // "compute", of rank 0
//   timeline->spans[0]            // {.row = 0, .begin = 0.0518, .seconds = 0.0439, .name = 3, .bytes = 0}
//
// It is the last whole step of the file, from the forward pass of rank 0 to the step's end. If it has more than
// kMostSpans spans, the longest are kept. The file is untrusted; a file that is no timeline has no rows. Local; IoError
// if it cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zero::page {

struct StepTimelineFile {
  static constexpr std::size_t kMostSpans = 4000;
  static constexpr std::uintmax_t kMostBytes = std::uintmax_t{256} << 20;

  struct Row {
    int rank = 0;
    std::string name;  // "compute", "disk read", "disk read 2"
  };
  struct Span {
    std::size_t row = 0;
    double begin = 0;  // seconds since the step began
    double seconds = 0;
    std::size_t name = 0;  // index into `names`
    double bytes = 0;
  };

  std::vector<Row> rows;  // by rank, in the order of the picture
  std::vector<std::string> names;
  std::vector<Span> spans;
  double seconds = 0;            // of the step
  std::size_t num_left_out = 0;  // number of short spans
  std::string problem;           // why there are no rows
};

std::optional<StepTimelineFile> read_timeline(const std::filesystem::path& path);

}  // namespace zero::page
