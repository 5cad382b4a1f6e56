// run_child(): runs another program to its end, with its output in a file.
//
//   ChildEnd end = run_child({"/usr/bin/zero", "train", ...}, "sweep/stage-0.log");
//   end.signal           // the signal that this process received meanwhile and passed on; 0: none
//
// It passes SIGINT and SIGTERM to the child, and restores the earlier handling at the end. Local; in a process without
// threads, one at a time. Throws IoError if the file cannot be opened or no process can be started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace zero::cli {

struct ChildEnd {
  int status = 0;  // as in a shell: 128 + n if signal n ended the child
  int signal = 0;
};

ChildEnd run_child(const std::vector<std::string>& words, const std::filesystem::path& output);

}  // namespace zero::cli
