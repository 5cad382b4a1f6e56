// RunOnDisk: a run folder like one of `zero train`, without training.
//
//   const RunOnDisk run("a", {.steps = 20, .report = true});
//   read_run(run.folder());
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "tests/support/temporary_folder.h"

namespace zero::page {

struct RunContents {
  int steps = 20;
  bool report = true;
  double step_seconds = 0.2;
  int stage = 3;
  std::string command = "zero train c.toml";
  double utilization = 0.25;
  double peak_flops = 0;  // of both ranks; 0: not in the report
  std::string host = "vm";
  int world = 2, threads = 1;
  std::string device = "cpu";
  std::string more_lines;  // last lines of metrics.jsonl
};

// A line of metrics.jsonl for one step (app/report/files/metrics_log.h).
inline std::string step_line(int step, double t, double loss, double seconds) {
  return fmt::format(
      R"({{"t": {:.3f}, "step": {}, "loss": {}, "lr": 0.001, "grad_norm": 1.5, "tokens_per_second": {}, )"
      R"("step_seconds": {}, "phase_seconds": {{"forward": 0.1, "backward": 0.05}}, "memory_bytes": )"
      R"({{"parameter": 1024, "gradient": 1024, "master": 0, "moment": 2048, "total": 4096}}, "sent_bytes": 3000, )"
      R"("samples": {}, "tokens": {}}})"
      "\n",
      t, step, loss, 100 / seconds, seconds, step * 2, step * 100);
}

class RunOnDisk {
 public:
  explicit RunOnDisk(const std::string& name, const RunContents& contents = {}) : path_(parent_.path() / name) {
    write("config.toml", fmt::format("[train]\nsteps = {}\n\n[zero]\nstage = {}\n\n[run]\ndir = \"{}\"\ntimeline = "
                                     "\"timeline.json\"\ndevice = \"{}\"\n",
                                     contents.steps, contents.stage, name, contents.device));
    write("plan.txt",
          "plan: gpt2\n"
          "  a rank     parameter    gradient      master      moment       total     formula |       sends\n"
          "  stage 3     1.00 KiB    1.00 KiB         0 B    2.00 KiB    4.00 KiB    4.00 KiB |    2.93 KiB\n");
    std::string lines;
    for (int step = 1; step <= contents.steps; ++step)
      lines += step_line(step, 1000 + step * contents.step_seconds, 5.0 - 0.1 * step, contents.step_seconds);
    lines += fmt::format(R"({{"t": 2000, "step": {}, "val_loss": 3.25, "eval_seconds": 990}})"
                         "\n",
                         contents.steps);
    write("metrics.jsonl", lines + contents.more_lines);
    if (contents.report) write("report.json", report(contents));
  }

  const std::filesystem::path& folder() const { return path_; }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << text;
  }

 private:
  static std::string report(const RunContents& c) {
    return fmt::format(
        R"({{"model": "gpt2", "num_parameters": 834304, "world": {5}, "stage": {0}, "dtype": "fp32", "steps": {1}, )"
        R"("losses": [4.9, 3.0], "val_loss": 3.125, "step_s_median": {2}, "tokens_per_second": {3}, )"
        R"("memory_bytes": [{{"parameter": 1000, "gradient": 1000, "moment": 2000, "gathered": 500, "total": 4500}}, )"
        R"({{"parameter": 1024, "gradient": 1024, "moment": 2048, "gathered": 512, "total": 4608}}], )"
        R"("peak_memory_bytes": [{{"total": 5000}}, {{"total": 5120}}], "sent_bytes_per_step": [2900, 3000], )"
        R"("planned_sent_bytes": 3000, "formula": {{"state_bytes": 4096.0, "sent_bytes": 4500.0}}, )"
        R"("profile": {{"forward_seconds": 0.1, "backward_seconds": 0.05, "update_seconds": 0.01, )"
        R"("exposed_seconds": 0}}, )"
        R"("predicted": {{"seconds": 0.25, "bound": "compute", "forward": {{"seconds": 0.15}}, )"
        R"("backward": {{"seconds": 0.1}}, "update": {{"seconds": 0.0}}}}, "skipped_steps": 0, "rewinds": 0, )"
        R"("utilization": {6}, {7}"threads": {8}, "host": "{9}", "command": "{4}"}})",
        c.stage, c.steps, c.step_seconds, 100 / c.step_seconds, c.command, c.world, c.utilization,
        c.peak_flops > 0 ? fmt::format("\"peak_flops\": {}, ", c.peak_flops) : "", c.threads, c.host);
  }

  TemporaryFolder parent_;
  std::filesystem::path path_;
};

}  // namespace zero::page
