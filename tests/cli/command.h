// Folder: runs the built command as a user does.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/wait.h>

#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {

struct Ran {
  int status = -1;
  std::string output, errors;
};

// A temporary folder in which commands run. It is removed at the end of the test.
class Folder {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << bytes;
    return (path() / name).string();
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path() / name, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // Runs `zero ARGUMENTS` in a shell. `before` precedes the command: variables, or other commands.
  Ran zero(const std::string& arguments, const std::string& before = "") const {
    const std::string line = "cd '" + path().string() +
                             "' && export XDG_CACHE_HOME=\"$PWD/.cache\" && exec >.out 2>.err </dev/null && " + before +
                             " '" + built::kCommand + "' " + arguments;
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(".out"), read(".err")};
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace zero
