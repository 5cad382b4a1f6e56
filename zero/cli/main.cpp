#include <string>
#include <vector>

#include "zero/cli/verbs.h"

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + (count > 0 ? 1 : 0), arguments + count);
  return zero::cli::run_command(words);
}
