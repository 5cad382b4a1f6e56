#include "app/report/files/metrics_log.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// JSON has no infinity and no NaN.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string transfers_json(const StepTransfers& transfers) {
  const auto& [requests, link] = transfers;
  std::string json = R"("transfers": {)";
  for (const Tier tier : kRequestTiers)
    json += fmt::format(R"({}"{}": {{"read_bytes": {}, "written_bytes": {}, "exposed_seconds": {}}})",
                        tier == kRequestTiers.front() ? "" : ", ", name_of(tier), requests[tier].read_bytes,
                        requests[tier].written_bytes, number(requests[tier].waited_seconds));
  if (link.busy_seconds > 0) {
    json += fmt::format(R"(, "link_up": {{"bytes": {}, "exposed_seconds": {}}})", link.up_bytes,
                        number(link.up_waited_seconds));
    json += fmt::format(R"(, "link_down": {{"bytes": {}, "exposed_seconds": {}}})", link.down_bytes,
                        number(link.down_waited_seconds()));
  }
  return json + '}';
}

std::string served_json(const ServedSteps& served) {
  return fmt::format(R"("served": {{"updates": {}, "dropped": {}, "mean_age": {}, "most_age": {}, "pushed_bytes": {}, )"
                     R"("pulled_bytes": {}, "waited_seconds": {}, "replaced": {}}})",
                     served.updates, served.dropped, number(served.mean_age), served.most_age, served.pushed_bytes,
                     served.pulled_bytes, number(served.waited_seconds), served.replaced);
}

// Adds to the number after the first such key; no-op without it.
void add_to_number(std::string& line, std::string_view key, std::int64_t more) {
  const std::string name = fmt::format(R"("{}": )", key);
  const std::size_t found = line.find(name);
  if (found == std::string::npos) return;
  const std::size_t begin = found + name.size();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(line.data() + begin, line.data() + line.size(), value);
  if (error != std::errc()) return;
  const auto digits = static_cast<std::size_t>(end - (line.data() + begin));
  line.replace(begin, digits, fmt::format("{}", value + more));
}

std::uintmax_t size_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) throw IoError(path.string(), "look at", error.value());
  return bytes;
}

}  // namespace

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void add_sent(StepMetrics& metrics, const SentBytes& by_outer_steps) {
  metrics.sent_bytes += by_outer_steps.total;
  if (metrics.sent_between_copies) *metrics.sent_between_copies += by_outer_steps.between_copies;
  metrics.mine.add(by_outer_steps.by_codec);
}

void add_sent(std::string& line, const SentBytes& by_outer_steps) {
  add_to_number(line, "sent_bytes", by_outer_steps.total);
  add_to_number(line, "sent_between_copies", by_outer_steps.between_copies);
}

std::string to_json_line(const StepMetrics& m) {
  fmt::memory_buffer line;
  const auto out = std::back_inserter(line);
  fmt::format_to(out,
                 R"({{"t": {:.3f}, "step": {}, "loss": {}, "lr": {}, "grad_norm": {}, "{}_per_second": {}, )"
                 R"("step_seconds": {}, "phase_seconds": {{"forward": {}, "backward": {}, "reduce": {}, "gather": {}, )"
                 R"("update": {}, "wait": {}}}, "memory_bytes": {{)",
                 m.time, m.step, number(m.loss), number(m.lr), number(m.grad_norm), m.has_tokens ? "tokens" : "rows",
                 number(m.tokens / m.seconds), number(m.seconds), number(m.forward), number(m.backward),
                 number(m.work.reduce), number(m.work.gather), number(m.work.update), number(m.work.wait));
  for (const MemoryTag tag : kAllMemoryTags) fmt::format_to(out, R"("{}": {}, )", name_of(tag), m.memory.device[tag]);
  fmt::format_to(out, R"("total": {}}})", m.memory.device.total());
  for (const Tier tier : kLowerTiers) fmt::format_to(out, R"(, "{}_bytes": {})", name_of(tier), m.memory[tier].total());
  fmt::format_to(out, R"(, "sent_bytes": {}{}{}{}{}{}, "samples": {}{}}})", m.sent_bytes,
                 m.served ? ", " + served_json(*m.served) : "",
                 m.sent_between_copies ? fmt::format(R"(, "sent_between_copies": {})", *m.sent_between_copies) : "",
                 m.sent_between_groups ? fmt::format(R"(, "sent_between_groups": {})", *m.sent_between_groups) : "",
                 m.transfers ? ", " + transfers_json(*m.transfers) : "",
                 m.loss_scale ? fmt::format(R"(, "loss_scale": {})", number(*m.loss_scale)) : "", m.samples_so_far,
                 m.has_tokens ? fmt::format(R"(, "tokens": {:.0f})", m.tokens_so_far) : "");
  std::string json = fmt::to_string(line);
  if (!m.ranks.empty()) json.insert(json.size() - 1, R"(, "ranks": )" + ranks_json(m.ranks));
  return json;
}

std::string to_json_line(const EvaluationMetrics& m) {
  const char* const of = m.averaged ? "_ema" : "";
  return fmt::format(
      R"({{"t": {:.3f}, "step": {}, "val_loss{}": {}{}{}, "eval_seconds": {}}})", m.time, m.step, of,
      number(m.val_loss), m.accuracy ? fmt::format(R"(, "val_accuracy{}": {})", of, number(*m.accuracy)) : "",
      m.perplexity ? fmt::format(R"(, "val_perplexity{}": {})", of, number(*m.perplexity)) : "", number(m.seconds));
}

std::string to_json_line(const SavedMetrics& m) {
  return fmt::format(R"({{"t": {:.3f}, "step": {}, "event": "{}", "state_sums": {}}})", m.time, m.step, kSavedEvent,
                     nlohmann::json(m.state_sums).dump());
}

std::string lines_until(std::string_view text, std::int64_t step, const ComesAgain& again) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;  // an incomplete line of a run that was killed
    const auto line = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    const bool counts = line.is_object() && line.contains("step") && line["step"].is_number_integer();
    const std::int64_t of = counts ? line["step"].get<std::int64_t>() : step + 1;
    const bool comes_again =
        of == step && ((again.evaluation && (line.contains("val_loss") || line.contains("val_loss_ema"))) ||
                       (again.rewinds && line.value("event", "") == "rewound"));
    if (of <= step && !comes_again) kept.append(text, begin, end + 1 - begin);
    begin = end + 1;
  }
  return kept;
}

MetricsLog::MetricsLog(std::filesystem::path path)
    : path_(std::move(path)), file_(std::in_place, path_), written_(size_of_file(path_)) {}

void MetricsLog::replace(std::int64_t step, const std::string& line) {
  const std::string key = fmt::format(R"("step": {}, "loss": )", step);
  // The line of that step and all later lines are written again.
  if (pending_.find(key) == std::string::npos) {
    const std::string text = read_file(path_).substr(0, written_);
    const std::size_t found = text.rfind(key);
    if (found == std::string::npos) return;
    written_ = text.rfind('\n', found) + 1;  // npos + 1 is 0
    pending_.insert(0, text, written_, std::string::npos);
  }
  const std::size_t found = pending_.rfind(key);
  const std::size_t begin = pending_.rfind('\n', found) + 1;
  pending_.replace(begin, pending_.find('\n', found) - begin, line);
}

void MetricsLog::take_back(std::int64_t step) {
  pending_ = lines_until(pending_, step, {});
  back_to_ = std::min(back_to_.value_or(step), step);
}

void MetricsLog::flush() {
  if (back_to_) {
    write_file(path_, lines_until(read_file(path_).substr(0, written_), *back_to_, {}));
    file_.emplace(path_);
    written_ = size_of_file(path_);
    back_to_.reset();
  }
  if (pending_.empty()) return;
  // Removes an incomplete line that an earlier failure has left.
  if (size_of_file(path_) > written_) {
    std::error_code error;
    std::filesystem::resize_file(path_, written_, error);
    if (error) throw IoError(path_.string(), "set the size", error.value());
  }
  try {
    file_->append(pending_);
  } catch (const IoError&) {
    std::error_code ignored;  // the next flush() tries again
    std::filesystem::resize_file(path_, written_, ignored);
    throw;
  }
  written_ += pending_.size();
  pending_.clear();
}

}  // namespace zero
