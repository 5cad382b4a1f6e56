#include "app/report/files/run_origin.h"

#include <array>
#include <ctime>

#include <unistd.h>

#include "zero/base/files/proc_file.h"
#include "zero/base/process/machine.h"

namespace zero {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&now, &parts) == nullptr) return "";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string origin_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string quoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

std::string shell_words(std::string_view zero_terminated) {
  std::string text;
  while (!zero_terminated.empty()) {
    const auto end = zero_terminated.find('\0');
    const std::string_view word = zero_terminated.substr(0, end);
    zero_terminated.remove_prefix(end == std::string_view::npos ? zero_terminated.size() : end + 1);
    text += (text.empty() ? "" : " ") + quoted(word);
  }
  return text;
}

RunOrigin origin_of_process(std::string_view configuration, std::string_view libtorch) {
  return {.date = utc_now(),
          .host = origin_host(),
          .command = shell_words(try_read_proc_file("/proc/self/cmdline").value_or("")),
          .libtorch = std::string(libtorch),
          .processor = processor_name(),
          .cores = num_usable_cores(),
          .configuration = std::string(configuration)};
}

}  // namespace zero
