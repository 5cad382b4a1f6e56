#include "zero/comm/rendezvous/slurm_lists.h"

#include <charconv>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// Takes the digits from the front of `text`; returns -1 if there are none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(end - text.data());
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

int slurm_tasks_on_node(std::string_view list, int node, std::string_view key) {
  std::string_view rest = list;
  for (int first = 0; !rest.empty();) {
    const int tasks = take_number(rest);
    int repeat = 1;
    const bool repeated = take(rest, "(x");
    if (repeated) repeat = take_number(rest);
    if (tasks < 1 || repeat < 1 || (repeated && !take(rest, ")")) || (!rest.empty() && !take(rest, ","))) break;
    if (node < first + repeat) return tasks;
    first += repeat;
    if (rest.empty()) {
      throw ConfigError(key, list, "does not reach node " + std::to_string(node), "start the ranks with srun");
    }
  }
  throw ConfigError(key, list, "is not a list like 2(x3),1", "start the ranks with srun");
}

std::string slurm_first_host(std::string_view list, std::string_view key) {
  const std::size_t end = list.find_first_of(",[");
  std::string host(list.substr(0, end));
  if (end != std::string_view::npos && list[end] == '[') {
    const std::size_t number_end = list.find_first_of(",-]", end);
    const std::size_t close = list.find(']', end);
    if (close == std::string_view::npos || number_end == end + 1) {
      throw ConfigError(key, list, "is not a list like n[001-004,7]", "pass --master-addr");
    }
    host += list.substr(end + 1, number_end - end - 1);
    // The text after the bracket, as in rack[1-2]-node, up to the next host.
    const std::size_t tail_end = list.find_first_of(",[", close);
    host += list.substr(close + 1, tail_end == std::string_view::npos ? tail_end : tail_end - close - 1);
    if (tail_end != std::string_view::npos && list[tail_end] == '[') {
      throw ConfigError(key, list, "has two ranges in one name", "pass --master-addr");
    }
  }
  if (host.empty()) throw ConfigError(key, list, "names no host", "pass --master-addr");
  return host;
}

}  // namespace zero
