#include "app/train/run/start/run_opening.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/collectives.h"

#include "app/report/same_configuration.h"
#include "app/train/folder/push_log.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/weights/model_files.h"
#include "app/train/weights/run_words.h"

namespace zero {
namespace {

// Runs a check only on rank 0; if it throws, every rank throws the same error.
void require_on_first(Communicator& comm, const std::function<void()>& check) {
  std::string reason;
  if (comm.rank() == 0) reason = failure_of(check);
  reason = broadcast_text(comm, reason);
  if (reason.empty()) return;
  // The text of a ConfigError is "KEY = VALUE: REASON".
  const std::size_t colon = std::min(reason.find(": "), reason.size());
  const std::string head = reason.substr(0, colon);
  const std::size_t equals = std::min(head.find(" = "), head.size());
  throw ConfigError(head.substr(0, equals), head.substr(std::min(equals + 3, head.size())),
                    reason.substr(std::min(colon + 2, reason.size())), "");
}

bool as_first_sees(Communicator& comm, bool mine) {
  return all_gather_value(comm, mine ? 1 : 0).front() == 1;
}

bool is_true_anywhere(Communicator& comm, bool mine) {
  return std::ranges::max(all_gather_value(comm, mine ? 1 : 0)) == 1;
}

// Returns the names that the ranks have, without empty ones. Collective.
std::set<std::string> distinct_names(Communicator& comm, const std::string& mine) {
  const std::vector<std::string> all = all_gather_text(comm, mine);
  std::set<std::string> names(all.begin(), all.end());
  names.erase("");
  return names;
}

// Keys that do not change the results: a replay needs no restarts, and takes its threads from the log.
constexpr std::array<std::string_view, 5> kFreeKeys{"run.dir", "run.max_restarts", "run.threads", "comm.transport",
                                                    "comm.timeout"};

// Throws if the recorded run has no complete log, had another configuration, or computed on other machines or builds.
// Other threads are allowed.
std::vector<ComputingPlace> require_recorded(const TrainJob& job) {
  const RunFiles files(job.replay);
  std::vector<ComputingPlace> places = PushLog::read(files.pushes).places;
  const std::string changed = changed_keys(read_file(files.config), job.config_text, kFreeKeys);
  if (!changed.empty())
    throw ConfigError("--replay", job.replay.string(), fmt::format("that run has another configuration:{}", changed),
                      "use its own config.toml");
  if (places.size() != job.places.size())
    throw ConfigError("--replay", job.replay.string(),
                      fmt::format("that run has {}, and this run has {}",
                                  format_count(static_cast<std::int64_t>(places.size()), "rank"), job.places.size()),
                      "start as many ranks");
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::string other = why_other_bits(places[rank], job.places[rank]);
    if (!other.empty())
      throw ConfigError("--replay", job.replay.string(),
                        fmt::format("the bits would differ: rank {} computed with {}", rank, other),
                        "replay with the same versions and settings, on a processor with the same instructions");
  }
  return places;
}

std::string text_of(std::span<const ComputingPlace> places) {
  std::string text;
  for (const ComputingPlace& place : places) text += to_text(place) + "\n";
  return text;
}

std::vector<ComputingPlace> places_in(std::string_view text) {
  std::vector<ComputingPlace> places;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::optional<ComputingPlace> place = place_of_text(line);
    ZERO_CHECK(place.has_value(), "a rank says that it computes with '{}'", line);
    places.push_back(*place);
  }
  return places;
}

// Returns a line with the threads that a replay takes from the recorded run, and with a processor that differs.
std::string replay_line(std::span<const ComputingPlace> recorded, std::span<const ComputingPlace> here) {
  std::string threads;
  for (const ComputingPlace& place : recorded)
    threads += fmt::format("{}{}", threads.empty() ? "" : ", ", place.threads);
  std::string line = fmt::format("replay: threads of the ranks as recorded: {}", threads);
  for (std::size_t rank = 0; rank < recorded.size(); ++rank) {
    if (recorded[rank].processor == here[rank].processor) continue;
    return line + fmt::format(
                      "; rank {} computed on {}, and computes on {}, for which libtorch's libraries may choose "
                      "another order of sums",
                      rank, recorded[rank].processor, here[rank].processor);
  }
  return line;
}

}  // namespace

TrainJob as_recorded(TrainJob job, Communicator& run) {
  if (!job.attach.sync.has_servers()) {
    if (job.replay.empty()) return job;
    throw ConfigError("--replay", job.replay.string(), "only a run with servers depends on the order of events",
                      "leave it out: without servers every run has the same bits");
  }
  const auto rank = static_cast<std::size_t>(run.rank());
  if (is_replacement(run)) {
    if (!job.replay.empty()) job.attach.threads = PushLog::read(RunFiles(job.replay).pushes).places.at(rank).threads;
    return job;
  }
  for (const std::string& text : all_gather_text(run, text_of(std::array{computing_place(job.attach.threads)})))
    job.places.push_back(places_in(text).at(0));
  std::vector<ComputingPlace> recorded;
  require_on_first(run, [&] {
    if (!job.replay.empty()) recorded = require_recorded(job);
  });
  recorded = places_in(broadcast_text(run, text_of(recorded)));
  if (recorded.empty()) return job;
  job.replay_line = replay_line(recorded, job.places);
  job.attach.threads = recorded.at(rank).threads;
  for (std::size_t i = 0; i < recorded.size(); ++i) job.places[i].threads = recorded[i].threads;
  return job;
}

TrainJob with_words(TrainJob job, Communicator& run) {
  if (!learns_words(job.data)) return job;
  if (is_replacement(run)) {
    job.data.known_words = words_in(job.run_dir, "run.dir");
    return job;
  }
  FoundWords found;
  require_on_first(run, [&] { found = find_words(job); });
  const KnownWords mine = found.words.value_or(KnownWords());
  KnownWords words;
  words.path = broadcast_text(run, mine.path);
  words.key = broadcast_text(run, mine.key);
  words.lines = broadcast_text(run, mine.lines);
  if (!words.path.empty()) job.data.known_words = std::move(words);
  if (!found.note.empty()) job.notes.push_back(found.note);
  return job;
}

void require_steps_left(const TrainJob& job, std::int64_t step) {
  if (step <= job.train.steps) return;
  throw ConfigError("train.steps", fmt::format("{}", job.train.steps),
                    fmt::format("this run has reached step {} already", step),
                    "use more steps, or begin again with --overwrite");
}

std::optional<RunLock> hold_folder(const RunFolder& folder, Communicator& comm) {
  std::optional<RunLock> lock;
  require_on_first(comm, [&] { lock.emplace(folder.path()); });
  return lock;
}

RunOpening::RunOpening(const TrainJob& job, const RunFolder& folder, RunCheckpoints& checkpoints, Communicator& comm)
    : job_(job), folder_(folder), comm_(comm) {
  // The launch has another name on each machine. After a restart rank 0 may be on another machine, or the launcher of
  // its machine may be new.
  launches_ = fmt::format("{}", fmt::join(distinct_names(comm_, job_.launch.name), "\n"));
  const std::set<std::string> restarted = distinct_names(comm_, job_.launch.is_restart ? job_.launch.name : "");
  begun_by_us_ = as_first_sees(comm_, comm_.rank() == 0 && std::ranges::any_of(restarted, [this](const auto& name) {
                                        return folder_.is_of(name);
                                      }));
  const auto overwrites = all_gather_value(comm_, job_.overwrite ? 1 : 0);
  if (std::ranges::min(overwrites) != std::ranges::max(overwrites))
    throw ConfigError("--overwrite", "", "only some ranks have it", "give it to all ranks or to no rank");
  const bool keeps_runs = is_true_anywhere(comm_, job_.launch.keeps_runs);
  if (job_.overwrite && !begun_by_us_) {
    if (keeps_runs) require_on_first(comm_, [this] { require_no_run(); });
    return;
  }
  resumes_ = !checkpoints.steps().empty();
  cut_short_ = as_first_sees(comm_, comm_.rank() == 0 && !resumes_ && job_.checkpoint.on() && !begun_by_us_ &&
                                        folder_.was_cut_short(job_.config_text));
  const bool goes_on = begun_by_us_ || resumes_;
  const std::int64_t patience = job_.train.patience;
  ended_early_ = as_first_sees(comm_, goes_on && patience > 0 && folder_.finished_steps() < job_.train.steps &&
                                          folder_.evaluations_without_improvement() >= patience);
  is_done_ = ended_early_ || as_first_sees(comm_, goes_on && folder_.finished_steps() >= job_.train.steps);
}

void RunOpening::require_no_run() const {
  if (!folder_.holds_run() && folder_.files().checkpoints.list().empty()) return;
  throw ConfigError("run.dir", folder_.path().string(),
                    "torchrun has restarted the ranks with --overwrite, and the run here may be of another launch",
                    "start torchrun again: without --overwrite to continue this run, with --overwrite to replace it");
}

std::string RunOpening::why_done() const {
  const std::int64_t steps = std::max(folder_.finished_steps(), job_.train.steps);
  std::string text =
      ended_early_
          ? fmt::format(
                "{}: done already: it ended after step {} of {}, as {} did not improve it; continue with a larger "
                "train.patience, or begin again with --overwrite",
                folder_.path().string(), folder_.finished_steps(), job_.train.steps,
                format_count(folder_.evaluations_without_improvement(), "evaluation"))
          : fmt::format(
                "{}: done already, all {} steps{}; continue with a larger train.steps, or begin again with --overwrite",
                folder_.path().string(), steps,
                steps > job_.train.steps ? fmt::format(", which is more than train.steps = {}", job_.train.steps) : "");
  std::string changed;
  const std::string unknown =
      failure_of([&] { changed = changed_keys(read_file(folder_.files().config), job_.config_text); });
  if (unknown.empty() && !changed.empty())
    text += fmt::format("\n  nothing is trained, so these changes have no effect:{}", changed);
  return text;
}

void RunOpening::require_same_model() const {
  std::string changed;
  if (comm_.rank() == 0)
    static_cast<void>(failure_of([&] {
      changed = changed_model(read_file(folder_.files().config), job_.config_text, model_row(job_.model.name).keys);
    }));
  changed = broadcast_text(comm_, changed);
  if (changed.empty()) return;
  throw ConfigError("run.dir", folder_.path().string(), fmt::format("holds a run of another model:{}", changed),
                    "name another folder with --run.dir, or begin again with --overwrite");
}

void RunOpening::require_same_classes(const std::vector<std::string>& class_names) const {
  require_on_first(comm_, [&] { require_classes_of_run(folder_.path(), class_names); });
}

void RunOpening::require_may_start(const std::function<void(const std::string&)>& say) const {
  if (!job_.replay.empty() && resumes_)
    throw ConfigError("--replay", job_.replay.string(), "this run continues from a checkpoint",
                      "replay into another run.dir, or with --overwrite");
  if (resumes_) {
    require_same_model();
  } else {
    folder_.require_free(job_.overwrite || begun_by_us_ || cut_short_);
    if (cut_short_ || begun_by_us_)
      say("a run of this configuration ended here before its first checkpoint: it begins again");
  }
  require_on_first(comm_, [this] { folder_.require_writable(); });
}

}  // namespace zero
