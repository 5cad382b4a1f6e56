#include "app/cli/verify/audit.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/image/rank_layout.h"

#include "app/cli/verify/first_element.h"
#include "app/data/data_mark.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

bool are_equal(double one, double other) {
  return one == other || (std::isnan(one) && std::isnan(other));
}

// Returns the value as decimal, and exactly in hexadecimal.
std::string exact(double value) {
  return std::floor(value) == value && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{} ({:a})", value, value);
}

std::string sum_text(std::uint64_t sum) {
  return fmt::format("sum {:016x}", sum);
}

// Reads two files piece by piece, as weights may be larger than the memory.
bool have_same_bytes(const fs::path& one, const fs::path& other) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::ifstream first(one, std::ios::binary), second(other, std::ios::binary);
  if (!first || !second) throw IoError((first ? other : one).string(), "open", errno);
  std::vector<char> ours(kPiece), theirs(kPiece);
  do {
    first.read(ours.data(), static_cast<std::streamsize>(kPiece));
    second.read(theirs.data(), static_cast<std::streamsize>(kPiece));
    const auto count = static_cast<std::size_t>(first.gcount());
    if (first.gcount() != second.gcount() || std::memcmp(ours.data(), theirs.data(), count) != 0) return false;
  } while (first && second);
  return true;
}

class Comparison {
 public:
  Comparison(const AuditPlan& plan, const fs::path& execution, const std::function<bool()>& stops)
      : plan_(plan), execution_(execution), stops_(stops), found_(read_records(execution / "metrics.jsonl")) {}

  Audit take() && {
    compare_lines();
    compare_steps();
    compare_evaluations();
    if (stops_()) return std::move(audit_);
    compare_start();
    for (const std::int64_t step : plan_.saves) {
      if (stops_()) return std::move(audit_);
      compare_states(step);
    }
    compare_last_weights();
    compare_data();
    std::ranges::stable_sort(audit_.differences, {}, &Difference::step);
    conclude();
    return std::move(audit_);
  }

 private:
  bool is_executed(std::int64_t step) const { return step > plan_.start && step <= plan_.last; }
  void differ(Difference difference) { audit_.differences.push_back(std::move(difference)); }

  void compare_lines() {
    for (const DamagedLine& damaged : plan_.records.damaged)
      if (damaged.step >= plan_.start && damaged.step <= plan_.last)
        differ({damaged.step, fmt::format("line {} of metrics.jsonl", damaged.line), "", "", damaged.reason});
  }

  template <typename Keys>
  void compare_values(std::int64_t step, const RecordedValues& recorded, const RecordedValues& found,
                      const Keys& keys) {
    for (const char* const key : keys) {
      const auto then = recorded.find(key), now = found.find(key);
      if (now == found.end()) continue;
      if (then == recorded.end()) {
        if (lacking_.emplace(key, step).second)
          audit_.not_compared.push_back(fmt::format("{} of step {}: the run's log lacks it", key, step));
      } else if (!are_equal(then->second, now->second)) {
        differ({step, key, exact(then->second), exact(now->second), ""});
        differing_values_.insert(step);
      }
    }
  }

  void compare_steps() {
    for (std::int64_t step = plan_.start + 1; step <= plan_.last; ++step) {
      const auto recorded = plan_.records.steps.find(step), found = found_.steps.find(step);
      if (found == found_.steps.end()) {
        differ({step, "step", "", "", "was not reached by the second execution"});
        return;
      }
      if (recorded == plan_.records.steps.end()) {
        differ({step, "metrics.jsonl", "", "", "has no line of this step"});
        continue;
      }
      ++audit_.num_steps;
      compare_values(step, recorded->second, found->second, kStepValues);
    }
  }

  void compare_evaluations() {
    // After the last step of the log, an evaluation belongs to no step.
    const bool is_to_end = plan_.last == plan_.records.last_step();
    const std::int64_t reached = found_.last_step();
    std::set<std::int64_t> steps;
    for (const auto& [step, found] : found_.evaluations)
      if (is_executed(step)) steps.insert(step);
    for (const auto& [step, recorded] : plan_.records.evaluations)
      if ((is_executed(step) && step <= reached) || (is_to_end && step > plan_.last)) steps.insert(step);
    for (const std::int64_t step : steps)
      compare_evaluations_of(step, evaluations_in(plan_.records, step), evaluations_in(found_, step));
  }

  static std::vector<RecordedValues> evaluations_in(const RunRecords& records, std::int64_t step) {
    const auto found = records.evaluations.find(step);
    return found == records.evaluations.end() ? std::vector<RecordedValues>() : found->second;
  }

  void compare_evaluations_of(std::int64_t step, const std::vector<RecordedValues>& recorded,
                              const std::vector<RecordedValues>& found) {
    for (std::size_t i = 0; i < std::min(recorded.size(), found.size()); ++i) {
      ++audit_.num_evaluations;
      compare_values(step, recorded[i], found[i], kEvaluationValues);
    }
    if (recorded.size() < found.size())
      audit_.not_compared.push_back(fmt::format("an evaluation after step {}: the run's log lacks it", step));
    if (recorded.size() > found.size())
      differ({step, "metrics.jsonl", "", "",
              fmt::format("has {} of this step, and the second execution made {}",
                          format_count(std::ssize(recorded), "evaluation"), found.size())});
  }

  // Returns the checkpoint of the run, or null if it is not kept or damaged. Damage is reported once.
  const KeptCheckpoint* checkpoint_of(std::int64_t step) {
    const auto found = std::ranges::find(plan_.kept, step, &KeptCheckpoint::step);
    return found == plan_.kept.end() || !found->damage.empty() ? nullptr : &*found;
  }

  // The start is loaded, so only the run's own records can be compared with it.
  void compare_start() {
    for (const KeptCheckpoint& kept : plan_.kept)
      if (!kept.damage.empty()) differ({kept.step, "checkpoint", "", "", fmt::format("is damaged: {}", kept.damage)});
    if (plan_.start_path.empty()) return;
    const auto logged = plan_.records.saved.find(plan_.start);
    if (logged == plan_.records.saved.end()) {
      audit_.not_compared.push_back(fmt::format(
          "the states after step {}, with which the execution began: the log has no sums of them", plan_.start));
      return;
    }
    CheckpointReader reader(plan_.start_path);
    compare_sums(plan_.start, "the checkpoint has other states than the log says", logged->second, sums_of(reader));
  }

  // Returns true if all sums are equal.
  bool compare_sums(std::int64_t step, const std::string& detail, const StateSums& recorded, const StateSums& found) {
    bool same = true;
    for (const auto& [state, sum] : found.of_states()) {
      const auto then = recorded.of_states().find(state);
      if (then != recorded.of_states().end() && then->second == sum) continue;
      differ({step, state, then == recorded.of_states().end() ? "no such state" : sum_text(then->second), sum_text(sum),
              detail});
      same = false;
    }
    for (const auto& [state, sum] : recorded.of_states()) {
      if (found.of_states().contains(state)) continue;
      differ({step, state, sum_text(sum), "no such state", detail});
      same = false;
    }
    return same;
  }

  void compare_states(std::int64_t step) {
    const auto found = found_.saved.find(step), logged = plan_.records.saved.find(step);
    const KeptCheckpoint* const checkpoint = checkpoint_of(step);
    const bool is_logged = logged != plan_.records.saved.end();
    if (!is_logged && checkpoint == nullptr) {
      const bool is_damaged = std::ranges::find(plan_.kept, step, &KeptCheckpoint::step) != plan_.kept.end();
      if (!is_damaged)
        audit_.not_compared.push_back(fmt::format("the states after step {}: the run has no record of them", step));
      return;
    }
    if (found == found_.saved.end()) {
      audit_.not_compared.push_back(fmt::format("the states after step {}: the second execution did not save", step));
      return;
    }
    audit_.checkpoints.push_back(step);
    audit_.num_states += std::ssize(found->second.of_states());
    const bool log_agrees = is_logged && logged->second == found->second;
    if (is_logged && !log_agrees) {
      differing_states_.insert(step);
      compare_sums(step, "sum in the log", logged->second, found->second);
    }
    if (checkpoint != nullptr) compare_checkpoint(*checkpoint, found->second, is_logged, log_agrees);
  }

  void compare_checkpoint(const KeptCheckpoint& checkpoint, const StateSums& found, bool is_logged, bool log_agrees) {
    CheckpointReader reader(checkpoint.path);
    const StateSums here = sums_of(reader);
    if (here == found) {
      compare_extras(reader, checkpoint.step);
      return;
    }
    differing_states_.insert(checkpoint.step);
    for (const auto& [state, sum] : found.of_states()) {
      const auto then = here.of_states().find(state);
      if (then != here.of_states().end() && then->second == sum) continue;
      Difference difference{checkpoint.step, fmt::format("{} in the checkpoint", state), "", sum_text(sum), ""};
      difference.recorded = then == here.of_states().end() ? "no such state" : sum_text(then->second);
      name_element(reader, checkpoint.step, state, difference);
      if (is_logged && log_agrees) difference.detail += "; the log has the sums that were found";
      differ(std::move(difference));
    }
  }

  void name_element(CheckpointReader& reader, std::int64_t step, const std::string& state, Difference& difference) {
    const fs::path executed = CheckpointFolder(execution_ / "checkpoints").path_of(step);
    std::error_code ignored;
    if (!fs::exists(executed, ignored)) return;
    CheckpointReader other(executed);
    const auto element = find_first_element(reader, other, state);
    if (!element) return;
    difference.recorded = exact(element->recorded);
    difference.found = exact(element->found);
    difference.detail = fmt::format("element {} of {}, the first of {} {}", element->index, element->tensor,
                                    element->num_tensors, element->num_tensors == 1 ? "tensor" : "tensors");
  }

  // Buffers of modules, and states of rows and columns.
  void compare_extras(CheckpointReader& reader, std::int64_t step) {
    const fs::path executed = CheckpointFolder(execution_ / "checkpoints").path_of(step);
    std::error_code ignored;
    if (!fs::exists(executed, ignored)) return;
    CheckpointReader other(executed);
    const std::vector<Extra> found = other.read_extras(0);
    for (const Extra& extra : reader.read_extras(0)) {
      if (!extra.name.starts_with(kBufferPrefix) && !extra.name.starts_with(kFactorPrefix)) continue;
      const auto same = std::ranges::find(found, extra.name, &Extra::name);
      if (same == found.end() || same->bytes == extra.bytes) continue;
      differing_states_.insert(step);
      differ({step, extra.name, "", "", "other bytes in the checkpoint than in the second execution"});
    }
  }

  static std::string sha_in(const fs::path& run) {
    std::error_code ignored;
    if (!fs::exists(run / "report.json", ignored)) return "";
    const auto json = nlohmann::json::parse(read_file(run / "report.json"), nullptr, /*allow_exceptions=*/false);
    const auto found = json.is_object() ? json.find("parameters_sha256") : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  }

  // If the second execution did the run's last step, it also wrote the final weights. A run that was continued has the
  // weights of its last part.
  void compare_last_weights() {
    if (plan_.last != plan_.records.last_step()) return;
    const std::string found = sha_in(execution_), recorded = sha_in(plan_.run);
    if (found.empty() || recorded.empty()) return;
    if (found != recorded) {
      differing_states_.insert(plan_.last);
      differ({plan_.last, "parameters_sha256", recorded, found, "in report.json"});
      return;
    }
    has_last_weights_ = true;
    const fs::path weights = plan_.run / "model.safetensors";
    std::error_code ignored;
    if (fs::exists(weights, ignored) && !have_same_bytes(weights, execution_ / "model.safetensors"))
      differ({plan_.last, "model.safetensors", "", "", "other bytes than in the second execution"});
  }

  void compare_data() {
    if (plan_.data.empty()) {
      audit_.not_compared.emplace_back("the mark of the samples: the run's checkpoints have none");
      return;
    }
    for (const auto& entry : CheckpointFolder(execution_ / "checkpoints").list()) {
      if (entry.step == plan_.start) continue;
      const Manifest manifest = read_manifest(entry.path);
      if (const auto now = manifest.run.find("data"); now != manifest.run.end())
        audit_.data = changed_data(plan_.data, now->second);
      return;
    }
  }

  void conclude() {
    if (audit_.differences.empty()) {
      if (!audit_.data.empty())
        audit_.conclusion = fmt::format("no value differs, but the samples are different: {}", audit_.data);
      return;
    }
    const Difference& first = audit_.differences.front();
    const bool values_differ = differing_values_.contains(first.step);
    std::int64_t num_later = 0, num_equal_later = 0;
    for (std::int64_t step = first.step + 1; step <= plan_.last; ++step)
      ++(differing_values_.contains(step) ? num_later : num_equal_later);
    bool states_equal_later = has_last_weights_;
    for (const std::int64_t step : audit_.checkpoints)
      states_equal_later = states_equal_later || (step >= first.step && !differing_states_.contains(step));
    if (values_differ && num_later > 0 && num_later >= num_equal_later) {
      audit_.conclusion =
          audit_.data.empty()
              ? fmt::format(
                    "from step {} on the run computed with other samples, weights or settings than its records say",
                    first.step)
              : fmt::format("the samples are different from step {} on: {}", first.step, audit_.data);
    } else if (values_differ && (states_equal_later || num_equal_later > 0)) {
      audit_.conclusion = fmt::format("what follows step {} is equal, so only {} was changed", first.step,
                                      first.subject.starts_with("val_") ? "the log" : "its line in the log");
    } else if (!audit_.data.empty()) {
      audit_.conclusion = fmt::format("the samples are different: {}", audit_.data);
    }
  }

  const AuditPlan& plan_;
  const fs::path execution_;
  const std::function<bool()>& stops_;
  const RunRecords found_;
  Audit audit_;
  std::map<std::string, std::int64_t> lacking_;
  std::set<std::int64_t> differing_values_, differing_states_;
  bool has_last_weights_ = false;
};

}  // namespace

Audit compare_with_records(const AuditPlan& plan, const fs::path& execution, const std::function<bool()>& stops) {
  return Comparison(plan, execution, stops).take();
}

}  // namespace zero::cli
