#include "app/train/folder/computing_place.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "zero/base/process/machine.h"
#include "zero/optim/lanes/kernel_target.h"

namespace zero {
namespace {

// ATEN_CPU_CAPABILITY is not in the list, because libtorch reports the instructions that result from it.
constexpr std::array kSettings{
    "MKL_CBWR",         "MKL_ENABLE_INSTRUCTIONS",    "MKL_DEBUG_CPU_TYPE",      "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"};
constexpr std::string_view kNone = "-";

// Returns the text without spaces, as one word.
std::string word(std::string text) {
  for (char& letter : text)
    if (std::isspace(static_cast<unsigned char>(letter)) != 0) letter = '_';
  return text.empty() ? std::string(kNone) : text;
}

std::string settings() {
  std::string text;
  for (const char* const name : kSettings) {
    const char* const value = std::getenv(name);
    if (value != nullptr) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  }
  return word(text);
}

// Takes `key` and the word after it from the start of `text`, and returns that word. Empty: `text` begins otherwise.
std::optional<std::string> value_of(std::string_view key, std::string_view& text) {
  const std::string head = fmt::format("{} ", key);
  if (!text.starts_with(head)) return std::nullopt;
  text.remove_prefix(head.size());
  const std::string value(text.substr(0, text.find(' ')));
  text.remove_prefix(std::min(value.size() + 1, text.size()));
  return value.empty() ? std::nullopt : std::optional(value);
}

// Collects differences, "KEY THEN, and KEY NOW here".
class Differences {
 public:
  void compare(std::string_view what, const std::string& then, const std::string& now) {
    if (then == now) return;
    text_ += fmt::format("{}{} {}, and {} {} here", text_.empty() ? "" : "; ", what, then, what, now);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

Differences differences(const ComputingPlace& then, const ComputingPlace& now) {
  Differences found;
  found.compare("zero", then.zero, now.zero);
  found.compare("libtorch", then.libtorch, now.libtorch);
  found.compare("instructions", then.instructions, now.instructions);
  found.compare("settings", then.settings, now.settings);
  return found;
}

}  // namespace

ComputingPlace computing_place(int threads) {
  return {.threads = threads,
          .zero = ZERO_VERSION,
          .libtorch = TORCH_VERSION,
          .instructions = word(fmt::format("{}+{}", at::get_cpu_capability(), kernel_target())),
          .settings = settings(),
          .processor = processor_name()};
}

std::string to_text(const ComputingPlace& place) {
  return fmt::format("threads {} zero {} libtorch {} instructions {} settings {} processor {}", place.threads,
                     place.zero, place.libtorch, place.instructions, place.settings, place.processor);
}

std::optional<ComputingPlace> place_of_text(std::string_view text) {
  const auto threads = value_of("threads", text), version = value_of("zero", text),
             libtorch = value_of("libtorch", text), instructions = value_of("instructions", text),
             settings = value_of("settings", text);
  constexpr std::string_view kProcessor = "processor ";
  if (!threads || !version || !libtorch || !instructions || !settings || !text.starts_with(kProcessor))
    return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(threads->data(), threads->data() + threads->size(), number);
  if (error != std::errc() || end != threads->data() + threads->size() || number < 1) return std::nullopt;
  return ComputingPlace{number,        *version,  *libtorch,
                        *instructions, *settings, std::string(text.substr(kProcessor.size()))};
}

std::string why_other_bits(const ComputingPlace& then, const ComputingPlace& now) {
  return differences(then, now).text();
}

std::string text_of_places(std::vector<ComputingPlace> places) {
  std::vector<std::string> texts;
  for (const ComputingPlace& place : places) texts.push_back(to_text(place));
  std::ranges::sort(texts);
  const auto again = std::ranges::unique(texts);
  texts.erase(again.begin(), again.end());
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string changed_places(std::string_view then, std::string_view now) {
  if (then.empty() || then == now) return "";
  const std::optional<ComputingPlace> before = place_of_text(then), here = place_of_text(now);
  const auto is_one = [](std::string_view text) { return text.find("; threads ") == std::string_view::npos; };
  if (!before || !here || !is_one(then) || !is_one(now)) return fmt::format("{}, and {} here", then, now);
  Differences found = differences(*before, *here);
  found.compare("threads", fmt::format("{}", before->threads), fmt::format("{}", here->threads));
  found.compare("processor", before->processor, here->processor);
  return found.text();
}

}  // namespace zero
