// TraceFilter, begins_last_words(): recognise the lines on standard error in which a rank says why it ends.
//
//   begins_last_words("zero train: data.path = x: no such file")    // a verb of the command says why it ends: true
//   accused_rank("zero train: rank 1: all_gather: it left")         // 1: another rank's failure ended the rank
//   TraceFilter filter;   filter.pass(line)                         // nullopt for a line of libtorch's trace
//
// Local; values only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zero {

// Returns whether a verb prints its reason to end from this line on. False for lines of `zero launch`, which also
// reports restarts.
bool begins_last_words(std::string_view line);

// Returns the rank at the begin of a reason ("rank 1: ..."); -1: there is none. A verb may be before it, or the text
// that C++ prints before the message of an uncaught exception.
int accused_rank(std::string_view line);
// Returns the rank that left the run according to this reason, and so will soon print its own reason; -1: none.
int rank_that_left(std::string_view line);

// Leaves out the trace that libtorch appends to an error message: "Exception raised from ...", "frame #0: ...". One
// line replaces the trace, and says how to see it.
class TraceFilter {
 public:
  // Returns the line to show; nullopt: none.
  std::optional<std::string> pass(std::string line);
  // Returns whether the trace begins at this line, so the line before it was the error's own last line.
  bool at_trace() const { return at_trace_; }

 private:
  bool in_trace_ = false;
  bool at_trace_ = false;
};

}  // namespace zero
