#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "app/cli/command/torch_library.h"
#include "app/cli/verbs.h"

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + (count > 0 ? 1 : 0), arguments + count);
  const int status = zero::cli::run_command(words);
  // At exit, libtorch removes thousands of operators from its tables one by one, which takes a quarter of its loading
  // time. zero.cpp only needs to flush its output before the exit.
  if (zero::cli::torch_is_open()) {
    std::cout.flush();
    std::fflush(nullptr);
    std::_Exit(status);
  }
  return status;
}
