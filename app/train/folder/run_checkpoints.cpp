#include "app/train/folder/run_checkpoints.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/process/clock.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/image/state_sums.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/comm/collectives.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/pipeline/pipelined_module.h"

namespace zero {
namespace {

// A series of values that rank 0 saves.
struct Series {
  std::string_view name;
  ElementType dtype;
};
constexpr Series kLosses{"run/losses", ElementType::kF32}, kNorms{"run/grad_norms", ElementType::kF64},
    kSeconds{"run/seconds", ElementType::kF64}, kSkipped{"run/skipped", ElementType::kI64};
// Checkpoints of earlier versions lack these.
constexpr Series kSent{"run/sent", ElementType::kI64}, kServedCounts{"run/served_counts", ElementType::kI64},
    kServedMeans{"run/served_means", ElementType::kF64}, kLine{"run/metrics_line", ElementType::kU8};

constexpr std::string_view kWhyAPartIsMissing = ": it is damaged, or written by an earlier version";

template <typename T>
Extra extra_of(const Series& series, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {.name = std::string(series.name),
          .dtype = series.dtype,
          .shape = {std::ssize(values)},
          .bytes = std::vector<std::byte>(bytes.begin(), bytes.end())};
}

// Throws if the manifest lacks a series. Every rank reads the same manifest, so all ranks throw or none.
void require_series(const Manifest& manifest, const std::filesystem::path& path) {
  for (const Series& series : {kLosses, kNorms, kSeconds, kSkipped}) {
    const auto& extras = manifest.files.front().extras;
    const auto found = std::ranges::find(extras, series.name, &SavedExtra::name);
    if (found == extras.end() || found->dtype != series.dtype)
      throw IoError(path.string(), "load", 0,
                    fmt::format("has no {}, or not in the form of `zero train`{}", series.name, kWhyAPartIsMissing));
  }
}

// Returns the values on rank 0; empty on the others.
template <typename T>
std::vector<T> values_in(const std::vector<Extra>& extras, const Series& series) {
  for (const Extra& extra : extras) {
    if (extra.name != series.name) continue;
    std::vector<T> values(extra.bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), extra.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  return {};
}

// Returns rank 0's values on every rank.
template <typename T>
std::vector<T> of_rank_0(Communicator& comm, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  const std::string text = broadcast_text(comm, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::vector<T> theirs(text.size() / sizeof(T));
  if (!theirs.empty()) std::memcpy(theirs.data(), text.data(), text.size());
  return theirs;
}

// Two numbers for each rank.
std::vector<std::int64_t> numbers_of(const std::vector<SentInSteps>& sent) {
  std::vector<std::int64_t> numbers;
  for (const SentInSteps& rank : sent) numbers.insert(numbers.end(), {rank.total, rank.between_copies});
  return numbers;
}

std::vector<SentInSteps> sent_of(const std::vector<std::int64_t>& numbers) {
  std::vector<SentInSteps> sent;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2)
    sent.push_back({.total = numbers[i], .between_copies = numbers[i + 1]});
  return sent;
}

constexpr std::ptrdiff_t kServedNumbers = 6;  // before those of the workers

std::vector<std::int64_t> counts_of(const ServedSteps& served) {
  std::vector<std::int64_t> counts{served.updates,      served.dropped,      served.most_age,
                                   served.pushed_bytes, served.pulled_bytes, served.replaced};
  counts.insert(counts.end(), served.of_workers.begin(), served.of_workers.end());
  return counts;
}

ServedSteps served_of(const std::vector<std::int64_t>& counts, const std::vector<double>& means) {
  if (std::ssize(counts) < kServedNumbers || means.size() != 2) return {};
  return {.updates = counts[0],
          .dropped = counts[1],
          .mean_age = means[0],
          .most_age = counts[2],
          .pushed_bytes = counts[3],
          .pulled_bytes = counts[4],
          .waited_seconds = means[1],
          .replaced = counts[5],
          .of_workers = std::vector<std::int64_t>(counts.begin() + kServedNumbers, counts.end())};
}

std::int64_t count_in(const Manifest& manifest, const std::string& key, const std::filesystem::path& path) {
  const auto found = manifest.run.find(key);
  if (found == manifest.run.end())
    throw IoError(path.string(), "load", 0, fmt::format("does not say the run's \"{}\"{}", key, kWhyAPartIsMissing));
  const std::string& text = found->second;
  std::int64_t count = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0)
    throw IoError(path.string(), "load", 0, fmt::format("says of the run: {} = \"{}\"", key, text));
  return count;
}

// Returns an empty result for a checkpoint without a compared evaluation, such as a checkpoint of an earlier version.
BestEvaluation best_in(const Manifest& manifest, const std::filesystem::path& path) {
  if (!manifest.run.contains("evaluated_step")) return {};
  BestEvaluation best{.measure = manifest.run.at("best_measure") == name_of(BestMeasure::kAccuracy)
                                     ? BestMeasure::kAccuracy
                                     : BestMeasure::kLoss,
                      .since = count_in(manifest, "evaluations_since_best", path),
                      .evaluated = count_in(manifest, "evaluated_step", path)};
  if (!manifest.run.contains("best_step")) return best;
  best.step = count_in(manifest, "best_step", path);
  const std::string& text = manifest.run.at("best_value");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), best.value);
  if (error != std::errc() || end != text.data() + text.size())
    throw IoError(path.string(), "load", 0, fmt::format("says of the run: best_value = \"{}\"", text));
  return best;
}

// Returns the text of the sums; empty if the manifest has none.
std::string sums_in(const std::filesystem::path& path) {
  const Manifest manifest = read_manifest(path);
  const auto found = manifest.run.find(kStateSumsKey);
  return found == manifest.run.end() ? std::string() : found->second;
}

void require_of_a_run(const Manifest& manifest, const std::filesystem::path& path) {
  if (!manifest.run.contains("step"))
    throw ConfigError("run.dir", path.string(), "a checkpoint without its \"step\"",
                      "`zero train` did not write it: load it with engine.load()");
}

}  // namespace

std::filesystem::path nearest_existing(std::filesystem::path folder) {
  std::error_code ignored;
  while (!folder.empty() && !std::filesystem::exists(folder, ignored)) folder = folder.parent_path();
  return folder.empty() ? "." : folder;
}

RunCheckpoints::RunCheckpoints(const CheckpointPolicy& options, CheckpointFolder folder,
                               std::optional<LauncherMemory> memory, Communicator& comm, Say say, Machines machines)
    : options_(options),
      folder_(std::move(folder)),
      comm_(comm),
      say_(std::move(say)),
      last_begin_(monotonic_seconds()) {
  std::error_code unknown;
  const auto place = std::filesystem::weakly_canonical(folder_.path(), unknown);
  if (!memory) return;
  const std::string run = (unknown ? folder_.path() : place).string();
  machines == Machines::kOne ? kept_.emplace(std::move(*memory), run) : kept_.emplace(std::move(*memory), run, comm_);
}

void RunCheckpoints::require_room(const CheckpointPolicy& options, const std::filesystem::path& folder,
                                  std::int64_t bytes, const Say& say) {
  if (!options.on()) return;
  const std::string existing = nearest_existing(folder).string();
  std::error_code unknown;
  const auto space = std::filesystem::space(existing, unknown);
  if (unknown || space.capacity == 0) return;  // not a disk (/proc): writing fails with its own error
  const auto free_bytes = static_cast<std::int64_t>(space.available);
  if (free_bytes < bytes)
    throw ConfigError(
        "checkpoint.every", existing,
        fmt::format("has {} free, and a checkpoint takes {}", format_bytes(free_bytes), format_bytes(bytes)),
        "set run.dir to a larger disk, or set checkpoint.every = 0 to save no checkpoints");
  // While a new checkpoint is written, there is one more than is kept.
  const std::int64_t kept = options.keep + (options.keep_best ? 1 : 0);
  if (free_bytes / (kept + 1) < bytes)
    say(fmt::format("note: {} has {} free; {} checkpoints of {}, and one being written, would take more", existing,
                    format_bytes(free_bytes), kept, format_bytes(bytes)));
}

void RunCheckpoints::expect_room_to_copy(Engine& engine, std::int64_t bytes) {
  if (options_.on() && options_.async && !engine.control().has_room_to_copy(bytes)) say_not_copied();
}

void RunCheckpoints::say_not_copied() {
  if (!std::exchange(said_not_copied_, true))
    say_("note: there is no memory for a copy of all states: training waits while checkpoints are written");
}

// Returns the steps in the memory of all launchers. Notes once that a launcher lacks a step, unless a newer step
// replaces it.
std::vector<std::int64_t> RunCheckpoints::in_every_memory() {
  InMemoryCheckpoints::Agreed agreed = kept_->agree(comm_);
  const bool is_newest = agreed.steps.empty() || agreed.partial > agreed.steps.front();
  if (is_newest && agreed.partial > std::exchange(said_partial_, std::max(said_partial_, agreed.partial)))
    say_(fmt::format("note: the in-memory checkpoint of step {} is not used: the launcher of rank {} does not have it",
                     agreed.partial, agreed.missing_rank));
  return std::move(agreed.steps);
}

// The newest come first; of one step the checkpoint in memory comes first.
std::vector<RunCheckpoints::Saved> RunCheckpoints::saved() {
  std::vector<Saved> all;
  const bool several = kept_ && kept_->has_several_launchers();
  const std::vector<std::int64_t> in_every = several ? in_every_memory() : std::vector<std::int64_t>{};
  require_same_outcome(comm_, folder_.path().string(), [&] {
    if (comm_.rank() != 0) return;
    for (const auto& entry : folder_.list()) all.push_back({entry.step, false});
    if (kept_)
      for (const std::int64_t step : several ? in_every : kept_->steps()) all.push_back({step, true});
    std::ranges::sort(all, std::greater(), [](const Saved& entry) { return std::pair(entry.step, entry.in_memory); });
  });
  return of_rank_0(comm_, all);
}

std::vector<std::int64_t> RunCheckpoints::steps() {
  std::vector<std::int64_t> steps;
  for (const Saved& entry : saved()) steps.push_back(entry.step);
  return steps;
}

Resumed RunCheckpoints::load(EngineOfRun engine, const Saved& saved) {
  const auto path = saved.in_memory ? kept_->path_of(saved.step) : folder_.path_of(saved.step);
  LoadedCheckpoint loaded = saved.in_memory ? engine.engine().control().load(*kept_, saved.step) : engine.load(path);
  require_of_a_run(loaded.manifest, path);
  require_series(loaded.manifest, path);
  RunState state{.step = count_in(loaded.manifest, "step", path),
                 .samples = count_in(loaded.manifest, "samples", path),
                 .losses = of_rank_0(comm_, values_in<float>(loaded.extras, kLosses)),
                 .grad_norms = of_rank_0(comm_, values_in<double>(loaded.extras, kNorms)),
                 .seconds = of_rank_0(comm_, values_in<double>(loaded.extras, kSeconds)),
                 .skipped = of_rank_0(comm_, values_in<std::int64_t>(loaded.extras, kSkipped)),
                 .rewinds = count_in(loaded.manifest, "rewinds", path),
                 .spikes = count_in(loaded.manifest, "spikes", path),
                 .best = best_in(loaded.manifest, path)};
  const auto text_in = [&run = loaded.manifest.run](const char* key) {
    const auto found = run.find(key);
    return found == run.end() ? std::string() : found->second;
  };
  state.data = text_in("data");
  state.places = text_in("places");
  state.sent = sent_of(of_rank_0(comm_, values_in<std::int64_t>(loaded.extras, kSent)));
  state.served = served_of(of_rank_0(comm_, values_in<std::int64_t>(loaded.extras, kServedCounts)),
                           of_rank_0(comm_, values_in<double>(loaded.extras, kServedMeans)));
  const std::vector<char> line = of_rank_0(comm_, values_in<char>(loaded.extras, kLine));
  state.line.assign(line.begin(), line.end());
  for (const std::size_t values : {state.losses.size(), state.grad_norms.size(), state.seconds.size()})
    if (static_cast<std::int64_t>(values) != state.step)
      throw IoError(path.string(), "load", 0, fmt::format("{} values of {} steps", values, state.step));
  return {std::move(state), std::move(loaded.manifest),
          saved.in_memory ? fmt::format("an in-memory checkpoint that the launcher{} kept",
                                        kept_->has_several_launchers() ? "s" : "")
                          : path.string()};
}

std::optional<Resumed> RunCheckpoints::resume(EngineOfRun engine, std::int64_t newest) {
  std::vector<std::string> damages;
  const auto report_damages = [&] {
    if (comm_.rank() != 0) return;
    for (const std::string& damage : damages) ZERO_LOG(error, "this checkpoint is skipped: {}", damage);
  };
  for (const Saved& entry : saved()) {
    if (entry.step > newest) continue;
    try {
      Resumed resumed = load(engine, entry);
      if (!entry.in_memory) step_on_disk_ = entry.step;
      std::error_code unknown;
      const std::int64_t best = resumed.state.best.step;
      best_on_disk_ = best >= 0 && std::filesystem::exists(folder_.path_of(best), unknown) ? best : -1;
      report_damages();
      return resumed;
    } catch (const IoError& error) {
      damages.emplace_back(error.what());
    } catch (...) {
      report_damages();
      throw;
    }
  }
  if (damages.empty()) return std::nullopt;
  // All ranks throw with rank 0's text, so it is reported once.
  const std::string found = broadcast_text(comm_, fmt::format("{}", fmt::join(damages, "\n  ")));
  throw SharedIoError(
      folder_.path().string(),
      fmt::format("no checkpoint can be read:\n  {}\n  Start again from the beginning with --overwrite.", found), 0);
}

bool RunCheckpoints::due(std::int64_t step, std::int64_t steps, bool may_ask) {
  if (!only_after_.empty()) return std::ranges::binary_search(only_after_, step);
  if (!options_.on()) return false;
  if (step == steps) return true;
  if (options_.every_steps > 0) return step % options_.every_steps == 0;
  if (!may_ask) return false;
  const bool mine = monotonic_seconds() - last_begin_ >= options_.every_seconds;
  return all_gather_value(comm_, mine ? 1 : 0).front() == 1;
}

SaveContents RunCheckpoints::contents_of(const RunState& state, std::string config) const {
  SaveContents contents{.run = {{"step", fmt::format("{}", state.step)},
                                {"samples", fmt::format("{}", state.samples)},
                                {"rewinds", fmt::format("{}", state.rewinds)},
                                {"spikes", fmt::format("{}", state.spikes)},
                                {"data", state.data},
                                {"places", state.places}},
                        .config = std::move(config)};
  if (state.best.evaluated >= 0) {
    contents.run["best_measure"] = std::string(name_of(state.best.measure));
    contents.run["evaluations_since_best"] = fmt::format("{}", state.best.since);
    contents.run["evaluated_step"] = fmt::format("{}", state.best.evaluated);
  }
  if (state.best.step >= 0) {
    contents.run["best_step"] = fmt::format("{}", state.best.step);
    contents.run["best_value"] = fmt::format("{}", state.best.value);
  }
  if (comm_.rank() != 0) return contents;
  contents.extras = {extra_of(kLosses, state.losses),
                     extra_of(kNorms, state.grad_norms),
                     extra_of(kSeconds, state.seconds),
                     extra_of(kSkipped, state.skipped),
                     extra_of(kSent, numbers_of(state.sent)),
                     extra_of(kLine, std::vector<char>(state.line.begin(), state.line.end()))};
  if (!state.served.of_workers.empty()) {
    contents.extras.push_back(extra_of(kServedCounts, counts_of(state.served)));
    contents.extras.push_back(
        extra_of(kServedMeans, std::vector<double>{state.served.mean_age, state.served.waited_seconds}));
  }
  return contents;
}

bool RunCheckpoints::lacks_best(const BestEvaluation& best) {
  if (!options_.keep_best || best.step < 0) return false;
  return all_gather_value(comm_, best_on_disk_ == best.step ? 0 : 1).front() == 1;
}

bool RunCheckpoints::due_in_memory(std::int64_t step) const {
  return kept_ && options_.memory_every > 0 && step % options_.memory_every == 0;
}

void RunCheckpoints::save_in_memory(Engine& engine, const RunState& state, std::string config) {
  const double begin = monotonic_seconds();
  try {
    const bool kept = engine.control().keep(*kept_, state.step, contents_of(state, std::move(config)));
    if (kept && !std::exchange(said_in_memory_, true))
      say_(fmt::format("in-memory checkpoint: step {}, in {:.3f} s; the {} the newest", state.step,
                       monotonic_seconds() - begin,
                       kept_->has_several_launchers() ? "launchers keep" : "launcher keeps"));
    if (!kept && !std::exchange(said_no_memory_, true))
      say_(fmt::format("note: no in-memory checkpoint of step {}: there is no memory for it", state.step));
  } catch (const IoError& error) {
    if (options_.stop_on_error) throw;
    if (comm_.rank() == 0) ZERO_LOG(error, "no in-memory checkpoint of step {}: {}", state.step, error.what());
  }
}

void RunCheckpoints::begin(EngineOfRun engine, const RunState& state, std::string config, SaveMode mode) {
  finish(engine);
  last_begin_ = monotonic_seconds();
  saving_step_ = state.step;
  saving_best_ = options_.keep_best && state.best.step == state.step;
  try {
    const std::filesystem::path path = folder_.path_of(state.step);
    const SaveMode chosen = options_.async ? mode : SaveMode::kSync;
    SaveContents contents = contents_of(state, std::move(config));
    PipelineEngine* const pipeline = engine.pipeline();
    save_ = pipeline != nullptr ? pipeline->module().begin_save(path, std::move(contents), chosen)
                                : engine.engine().control().begin_save(path, std::move(contents), chosen);
    go_on(engine, chosen);
  } catch (const IoError& error) {
    fail(error);
  }
}

void RunCheckpoints::go_on(EngineOfRun engine, SaveMode mode) {
  const bool copied = save_->copied();
  if (copied) said_not_copied_ = false;  // if copying fails later, it is reported again
  if (mode == SaveMode::kAsync && !copied) say_not_copied();
  if (!copied) finish(engine);  // already written: waiting for the end of a step gains nothing
}

// A failure is reported once and ends the save.
void RunCheckpoints::fail(const IoError& error) {
  last_failed_ = true;
  if (options_.stop_on_error) throw;  // NOLINT: called while the error is handled
  if (comm_.rank() == 0) ZERO_LOG(error, "step {} is not saved: {}", saving_step_, error.what());
}

void RunCheckpoints::settle(bool waits) {
  if (save_ == nullptr) return;
  try {
    if (waits) {
      save_->wait();
    } else if (!save_->poll()) {
      return;
    }
  } catch (const IoError& error) {
    save_ = nullptr;
    return fail(error);
  }
  const std::unique_ptr<RunningSave> saved = std::move(save_);
  count_saved(*saved);
}

void RunCheckpoints::count_saved(const RunningSave& saved) {
  last_failed_ = false;
  step_on_disk_ = saving_step_;
  if (saving_best_) best_on_disk_ = saving_step_;
  say_(fmt::format("checkpoint: step {}, {} a rank in {:.2f} s, of which training waited {:.3f} s", saving_step_,
                   format_bytes(saved.size_bytes()), saved.seconds(), saved.stalled_seconds()));
  if (comm_.rank() != 0) return;
  try {
    if (log_saved_) log_saved_(saving_step_, sums_in(folder_.path_of(saving_step_)));
  } catch (const std::exception& error) {
    ZERO_LOG(error, "the sums of the saved states are not logged: {}", error.what());
  }
  try {
    folder_.keep(options_.keep, saving_step_, options_.keep_best ? best_on_disk_ : -1);
  } catch (const std::exception& error) {
    ZERO_LOG(error, "old checkpoints are not removed: {}", error.what());
  }
}

void RunCheckpoints::poll() {
  settle(/*waits=*/false);
}

void RunCheckpoints::finish(EngineOfRun engine) {
  engine.finish_updates();
  settle(/*waits=*/true);
}

}  // namespace zero
