#include "app/report/step_timeline.h"

#include <algorithm>
#include <vector>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/files/file.h"
#include "zero/base/process/chrome_trace.h"
#include "zero/comm/collectives.h"

#include "app/report/files/rank_values.h"
#include "app/report/report.h"

namespace zero {
namespace {

struct RankRecord {
  double origin = 0;
  std::int64_t num_spans = 0;
  std::int64_t num_lost = 0;
};

// Names are separated by a character that no name has.
std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + '\0';
  return text;
}
std::vector<std::string> divided(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0, end = 0; (end = text.find('\0', begin)) != std::string::npos; begin = end + 1)
    names.push_back(text.substr(begin, end - begin));
  return names;
}

// Collective. Returns the trace of all ranks, on rank 0. Ranks of a pipeline have units of other names.
std::string chrome_trace_of(const Timeline& mine, Communicator& comm, bool one_clock) {
  const RankRecord record{mine.origin(), static_cast<std::int64_t>(mine.spans().size()), mine.num_lost()};
  const auto records = gather_ranks<RankRecord>(comm, std::span(&record, 1));
  std::int64_t most = 1;
  double earliest = record.origin;
  for (const auto& rank : records) {
    most = std::max(most, rank.front().num_spans);
    earliest = std::min(earliest, rank.front().origin);
  }
  std::vector<TimelineSpan> padded = mine.spans();
  padded.resize(static_cast<std::size_t>(most));
  const auto spans = gather_ranks<TimelineSpan>(comm, padded);
  const std::vector<std::string> texts = all_gather_text(comm, joined(mine.unit_names()));
  if (comm.rank() != 0) return "";
  std::vector<std::vector<std::string>> names;
  for (const std::string& text : texts) names.push_back(divided(text));
  std::vector<RankTimeline> ranks;
  for (std::size_t rank = 0; rank < spans.size(); ++rank) {
    const RankRecord& its = records[rank].front();
    ranks.push_back({.spans = std::span(spans[rank]).first(static_cast<std::size_t>(its.num_spans)),
                     .origin = one_clock ? earliest : its.origin,
                     .num_lost = its.num_lost,
                     .unit_names = names[rank]});
  }
  return to_chrome_trace(ranks, mine.unit_names());
}

}  // namespace

StepTimeline::StepTimeline(const TimelineOptions& options, std::int64_t num_steps, World& world,
                           const std::filesystem::path& folder)
    : path_(folder / options.file), asked_(options.asked), most_steps_(asked_ ? options.steps : 1), world_(world) {
  expect(num_steps);
  if (options.file.empty()) return;
  timeline_ =
      asked_ ? std::make_unique<Timeline>() : std::make_unique<Timeline>(TimelineOptions::kMostUnasked / world.size());
}

void StepTimeline::expect(std::int64_t num_steps) {
  first_ = std::min(asked_ ? std::int64_t{1} : static_cast<std::int64_t>(kWarmupSteps), num_steps - 1);
  last_ = std::min(first_ + most_steps_, num_steps) - 1;
}

void StepTimeline::remove_old() const {
  std::error_code ignored;
  if (timeline_ != nullptr && last_ >= 0) std::filesystem::remove(path_, ignored);
}

void StepTimeline::begin_step(std::int64_t step) {
  if (timeline_ == nullptr || step != first_) return;
  all_reduce_min(world_.communicator(), 0);  // all ranks are here after this
  timeline_->start();
}

bool StepTimeline::end_step(std::int64_t step) {
  if (timeline_ == nullptr || step != last_) return false;
  timeline_->stop();
  Communicator& comm = world_.communicator();
  const bool keeps = asked_ || all_reduce_min(comm, -timeline_->num_lost()) == 0;
  if (keeps) {
    const std::string trace = chrome_trace_of(*timeline_, comm, world_.local_size() == world_.size());
    if (timeline_->num_lost() > 0)
      ZERO_LOG(warn, "{} spans were too many for the timeline: take fewer steps", timeline_->num_lost());
    if (world_.rank() == 0) write(trace);
  } else {
    ZERO_LOG(info, "a step has too many spans for a timeline; set run.timeline to keep them");
  }
  *timeline_ = Timeline();  // ends recording, and frees its memory
  return keeps;
}

void StepTimeline::write(const std::string& trace) const {
  try {
    write_file(path_, trace, {.durable = asked_});
  } catch (const IoError& error) {
    if (asked_) throw;
    ZERO_LOG(warn, "the timeline of a step is not kept: {}", error.what());
  }
}

}  // namespace zero
