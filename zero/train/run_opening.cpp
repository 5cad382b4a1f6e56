#include "zero/train/run_opening.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/checkpoint/same_outcome.h"
#include "zero/comm/arrivals.h"
#include "zero/comm/collectives.h"
#include "zero/report/same_configuration.h"
#include "zero/train/model_kind.h"
#include "zero/train/push_log.h"

namespace zero {
namespace {

// What rank 0 alone looks at, and every rank then refuses.
void require_on_first(Communicator& comm, const std::function<void()>& check) {
  std::string reason;
  if (comm.rank() == 0) reason = failure_of(check);
  reason = broadcast_text(comm, reason);
  if (reason.empty()) return;
  // "KEY = VALUE: REASON", as a ConfigError has it.
  const std::size_t colon = std::min(reason.find(": "), reason.size());
  const std::string head = reason.substr(0, colon);
  const std::size_t equals = std::min(head.find(" = "), head.size());
  throw ConfigError(head.substr(0, equals), head.substr(std::min(equals + 3, head.size())),
                    reason.substr(std::min(colon + 2, reason.size())), "");
}

bool as_first_sees(Communicator& comm, bool mine) {
  return all_gather_value(comm, mine ? 1 : 0).front() == 1;
}

// Of the recorded run: its log is whole, and it had this configuration.
void require_recorded(const TrainJob& job) {
  const RunFiles recorded(job.replay);
  PushLog::read(recorded.pushes);
  auto before = keys_of_configuration(read_file(recorded.config)), now = keys_of_configuration(job.config_text);
  for (const std::string key : {"run.dir", "run.max_restarts"}) {  // a replay needs no restarts
    before.erase(key);
    now.erase(key);
  }
  if (before == now) return;
  throw ConfigError(
      "--replay", job.replay.string(),
      fmt::format("it is a run of another configuration:{}", changed_keys(read_file(recorded.config), job.config_text)),
      "use its own config.toml");
}

}  // namespace

void require_replay(const TrainJob& job, Communicator& run) {
  if (!job.attach.sync.has_servers()) {
    if (job.replay.empty()) return;
    throw ConfigError("--replay", job.replay.string(), "only a run with servers depends on the order of its events",
                      "leave it out: another has the same bits anyway");
  }
  if (is_replacement(run)) return;
  require_on_first(run, [&job] {
    if (!job.replay.empty()) require_recorded(job);
  });
}

void require_steps_left(const TrainJob& job, std::int64_t step) {
  if (step <= job.train.steps) return;
  throw ConfigError("train.steps", fmt::format("{}", job.train.steps),
                    fmt::format("this run has come to step {} already", step),
                    "use more steps, or begin again with --overwrite");
}

std::optional<RunLock> hold_folder(const RunFolder& folder, Communicator& comm) {
  std::optional<RunLock> lock;
  require_on_first(comm, [&] { lock.emplace(folder.path()); });
  return lock;
}

RunOpening::RunOpening(const TrainJob& job, const RunFolder& folder, RunCheckpoints& checkpoints, Communicator& comm)
    : job_(job), folder_(folder), comm_(comm) {
  begun_by_us_ = as_first_sees(comm_, job_.restarted && folder_.is_of(job_.launch));
  const auto overwrites = all_gather_value(comm_, job_.overwrite ? 1 : 0);
  if (std::ranges::min(overwrites) != std::ranges::max(overwrites))
    throw ConfigError("--overwrite", "", "given to some ranks and not to others", "give it to all ranks or to none");
  if (job_.overwrite && !begun_by_us_) return;
  resumes_ = !checkpoints.steps().empty();
  cut_short_ = as_first_sees(comm_, comm_.rank() == 0 && !resumes_ && job_.checkpoint.on() && !begun_by_us_ &&
                                        folder_.was_cut_short(job_.config_text));
  const bool goes_on = begun_by_us_ || resumes_;
  const std::int64_t patience = job_.train.patience;
  ended_early_ = as_first_sees(comm_, goes_on && patience > 0 && folder_.finished_steps() < job_.train.steps &&
                                          folder_.evaluations_without_improvement() >= patience);
  is_done_ = ended_early_ || as_first_sees(comm_, goes_on && folder_.finished_steps() >= job_.train.steps);
}

std::string RunOpening::why_done() const {
  const std::int64_t steps = std::max(folder_.finished_steps(), job_.train.steps);
  std::string text =
      ended_early_
          ? fmt::format(
                "{}: done already: it ended after step {} of {}, as {} did not improve it; a larger "
                "train.patience goes on with it, --overwrite begins again",
                folder_.path().string(), folder_.finished_steps(), job_.train.steps,
                format_count(folder_.evaluations_without_improvement(), "evaluation"))
          : fmt::format(
                "{}: done already, all {} steps{}; a larger train.steps goes on with it, --overwrite begins again",
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

void RunOpening::require_may_start(const std::function<void(const std::string&)>& say) const {
  if (!job_.replay.empty() && resumes_)
    throw ConfigError("--replay", job_.replay.string(), "this run goes on from a checkpoint",
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
