// run_child(): another program, to its end, with its output in a file.
//
//   ChildEnd end = run_child({"/usr/bin/zero", "train", ...}, "sweep/stage-0.log");
//   end.signal           // what this process was sent meanwhile and passed on; 0: nothing
//
// SIGINT and SIGTERM go on to the child, and the earlier handling comes back at the end. Local; in a process without
// threads, one at a time. Throws IoError for the file, and where no process can be started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace zero::cli {

struct ChildEnd {
  int status = 0;  // as a shell says it: 128 + n for one that signal n ended
  int signal = 0;
};

ChildEnd run_child(const std::vector<std::string>& words, const std::filesystem::path& output);

}  // namespace zero::cli
