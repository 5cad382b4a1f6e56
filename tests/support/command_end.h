// CommandEnd: the exit status of a shell command, and all that it printed.
//
//   const CommandEnd end = end_of_command("python3 check.py 2>&1");
//   EXPECT_EQ(end.status, 0) << end.text;
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include <sys/wait.h>

namespace zero {

struct CommandEnd {
  int status = -1;   // exit status; -1: a signal ended it, or it did not start
  std::string text;  // of standard output
};

inline CommandEnd end_of_command(const std::string& command) {
  CommandEnd end;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return end;
  std::array<char, 4096> part;
  for (std::size_t got = 0; (got = fread(part.data(), 1, part.size(), pipe)) > 0;) end.text.append(part.data(), got);
  const int status = pclose(pipe);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return end;
}

}  // namespace zero
