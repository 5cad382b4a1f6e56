#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "zero/cli/verbs.h"
#include "zero/command/torch_library.h"

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + (count > 0 ? 1 : 0), arguments + count);
  const int status = zero::cli::run_command(words);
  // At exit libtorch takes its thousands of operators out of its tables one by one, which costs a quarter of what it
  // took to load it. Nothing of ours is left to do there but what is written here.
  if (zero::cli::torch_is_open()) {
    std::cout.flush();
    std::fflush(nullptr);
    std::_Exit(status);
  }
  return status;
}
